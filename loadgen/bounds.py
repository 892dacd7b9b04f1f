"""Bounds of what a command is told. Pure."""

from inferq.errors import OperatorError


def within(name: str, value: float, least: float, most: float) -> None:
    """Raise `OperatorError`, which names both, for a value out of bounds."""
    if not least <= value <= most:
        raise OperatorError(f"{name} {value:g} is not allowed: it must be from {least:g} to {most:,.10g}")
