"""Texts to send: real snippets, made unique."""

from collections.abc import Iterator
from importlib import resources


def snippets() -> list[str]:
    """Return the bundled snippets."""
    lines = resources.files("loadgen").joinpath("data/snippets.txt").read_text("utf-8").splitlines()
    return [line for line in lines if line.strip()]


def unique(count: int) -> Iterator[str]:
    """Yield ``count`` texts, no two alike: a snippet that comes again carries its number."""
    known = snippets()
    for number in range(count):
        text = known[number % len(known)]
        again = number // len(known)
        yield f"{text} {again}" if again else text
