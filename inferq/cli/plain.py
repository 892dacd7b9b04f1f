"""Texts of others made harmless for a terminal. Pure."""


def printable(text: str, most: int = 0) -> str:
    """Return text on one line without control characters, cut to ``most`` characters where that is not 0."""
    shown = "".join(char if char.isprintable() else " " for char in text).strip()
    return f"{shown[: most - 1]}…" if most and len(shown) > most else shown
