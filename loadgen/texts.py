"""Texts to send: real snippets, made unique."""

import random
from collections.abc import Iterator
from itertools import count, islice

from inferq.snippets import snippets as snippets


def unique(count: int) -> Iterator[str]:
    """Yield ``count`` texts, no two alike: a snippet that comes again carries its number."""
    known = snippets()
    for number in range(count):
        text = known[number % len(known)]
        again = number // len(known)
        yield f"{text} {again}" if again else text


def dealt(wanted: int, *, hand: int = 64, seed: int = 0) -> Iterator[str]:
    """Yield ``wanted`` texts, no two alike, of which each ``hand`` in a row has about the lengths of all snippets.

    So arms that get through different numbers of texts in their time are compared on like texts: the snippets are
    sorted by length, each hand takes one of every stratum, and its order is drawn.
    """
    drawn = random.Random(seed)
    ordered = sorted(snippets(), key=len)
    return islice((text for again in count() for text in _hands(ordered, hand, drawn, again)), wanted)


def _hands(ordered: list[str], hand: int, drawn: random.Random, again: int) -> Iterator[str]:
    """Yield the snippets once, but for the few that fill no hand."""
    height = len(ordered) // hand
    strata = [ordered[row * height : (row + 1) * height] for row in range(hand)]
    for stratum in strata:
        drawn.shuffle(stratum)
    for column in range(height):
        texts = [stratum[column] for stratum in strata]
        drawn.shuffle(texts)
        yield from (f"{text} {again}" if again else text for text in texts)
