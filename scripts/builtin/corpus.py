"""Rated snippets, split into what the model may learn from and what only judges it.

Rules: a snippet rated within ±0.3 is neutral and left out; the sign is the label; equal texts count once; a snippet
that shares most of its words with a held-out one is not trained on either, so that the held-out figures are honest.
"""

import html
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

NEUTRAL_BELOW = 0.3
NEAR_DUPLICATE_JACCARD = 0.6

_WORD = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True, kw_only=True)
class Snippet:
    """One rated text; `rating` runs from -4 (most negative) to 4."""

    text: str
    rating: float

    @property
    def label(self) -> int:
        """1 for positive, 0 for negative."""
        return int(self.rating > 0)


@dataclass(frozen=True, kw_only=True)
class Split:
    """Training snippets of all corpora together, and the held-out ones by corpus."""

    train: tuple[Snippet, ...]
    held_out: Mapping[str, tuple[Snippet, ...]]


def parse(table: str) -> list[Snippet]:
    """Read `id<TAB>rating<TAB>text` lines; HTML entities are resolved and white space is collapsed."""
    rows = (line.split("\t") for line in table.splitlines() if line.strip())
    return [Snippet(text=_clean(text), rating=float(rating)) for _, rating, text in rows]


def split(
    corpora: Mapping[str, list[Snippet]],
    *,
    held_out_counts: Mapping[str, int],
    also_judged: Iterable[str],
    seed: int,
) -> Split:
    """Hold out the given number of each corpus, and train on all that resembles none of it, nor of `also_judged`."""
    remaining: list[Snippet] = []
    held_out: dict[str, tuple[Snippet, ...]] = {}
    seen: set[tuple[str, ...]] = set()
    for name, snippets in corpora.items():
        clear: list[Snippet] = []
        for snippet in snippets:
            key = _words(snippet.text)
            if abs(snippet.rating) >= NEUTRAL_BELOW and key and key not in seen:
                seen.add(key)
                clear.append(snippet)
        random.Random(f"{seed} {name}").shuffle(clear)
        count = held_out_counts[name]
        held_out[name] = tuple(clear[:count])
        remaining += clear[count:]
    judges = [*also_judged, *(snippet.text for group in held_out.values() for snippet in group)]
    return Split(train=tuple(_unlike(remaining, judges)), held_out=held_out)


def _unlike(snippets: Iterable[Snippet], judges: Iterable[str]) -> Iterable[Snippet]:
    bags = [frozenset(_words(text)) for text in judges]
    judges_with = defaultdict(list)
    for index, bag in enumerate(bags):
        for word in bag:
            judges_with[word].append(index)
    for snippet in snippets:
        bag = frozenset(_words(snippet.text))
        shared: dict[int, int] = defaultdict(int)
        for word in bag:
            for index in judges_with[word]:
                shared[index] += 1
        if all(
            count < NEAR_DUPLICATE_JACCARD * (len(bag) + len(bags[index]) - count)
            for index, count in shared.items()
        ):
            yield snippet


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(text.lower()))


def _clean(text: str) -> str:
    # The movie corpus writes double quotes as two apostrophes.
    return " ".join(html.unescape(text).replace("''", '"').split())
