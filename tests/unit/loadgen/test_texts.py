"""The texts that are sent."""

from itertools import islice

from loadgen.texts import snippets, unique


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
