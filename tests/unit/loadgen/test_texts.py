"""The texts that are sent."""

import statistics
from itertools import islice

from loadgen.texts import dealt, snippets, unique


def test_the_snippets_are_real_and_many() -> None:
    """Thousands of lines, none blank, none twice, none longer than a few sentences."""
    found = snippets()
    assert len(found) >= 1_000
    assert len(set(found)) == len(found)
    assert all(0 < len(text.strip()) <= 1_000 for text in found)


def test_no_two_texts_are_alike() -> None:
    """Not even when there are more than snippets; the first round is the snippets as they are."""
    known = snippets()
    sent = list(unique(3 * len(known)))
    assert len(set(sent)) == len(sent) == 3 * len(known)
    assert sent[: len(known)] == known
    assert sent[len(known)] == f"{known[0]} 1"


def test_texts_are_made_as_they_are_needed() -> None:
    """As many as told and no more, without a list of them all."""
    assert list(islice(unique(10**12), 2)) == snippets()[:2]
    assert list(unique(0)) == []


def test_dealt_texts_are_alike_in_length_hand_by_hand() -> None:
    """Each 64 in a row are about as long as all snippets, and no two are the same, even past the last snippet."""
    texts = list(dealt(6_400))
    assert len(set(texts)) == len(texts) == 6_400
    whole = statistics.mean(map(len, snippets()))
    hands = [statistics.mean(map(len, texts[start : start + 64])) for start in range(0, 4_992, 64)]
    assert all(abs(mean / whole - 1) < 0.05 for mean in hands)


def test_dealt_texts_follow_from_their_seed() -> None:
    """Equal seeds, equal texts; others come in another order, and a hand is not in order of length."""
    assert list(dealt(64, seed=1)) == list(dealt(64, seed=1)) != list(dealt(64, seed=2))
    assert list(dealt(64)) != sorted(dealt(64), key=len)
    assert list(dealt(0)) == []
