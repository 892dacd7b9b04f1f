"""The bundled snippets: real text of real lengths, for load and for measuring a model's precision."""

from importlib import resources


def snippets() -> list[str]:
    """Return the bundled snippets, no two alike."""
    lines = resources.files("inferq").joinpath("data/snippets.txt").read_text("utf-8").splitlines()
    return [line for line in lines if line.strip()]
