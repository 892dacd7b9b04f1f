"""Numbers with their nouns: "1 job", "2 jobs". Pure."""


def counted(number: int, one: str, many: str = "", *, form: str = "") -> str:
    """Return a number with what it counts; ``many`` is ``one`` and an s unless given, ``form`` how it is written."""
    return f"{number:{form}} {one if number == 1 else many or one + 's'}"
