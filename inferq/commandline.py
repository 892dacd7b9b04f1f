"""The flags of a service: one for each setting, from the table of settings."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from inferq.errors import OperatorError
from inferq.options import OPTIONS, Option


class _Parser(argparse.ArgumentParser):
    """argparse that raises instead of printing its usage, so that a slip is one line."""

    def error(self, message: str) -> NoReturn:
        raise OperatorError(f"{message}; {self.prog} --help lists the flags")


def parse_flags(program: str, description: str, argv: Sequence[str]) -> dict[str, str]:
    """Return the settings that the command line gives, by field; their values are still unchecked text.

    ``--help`` prints and exits 0.

    Raises:
        OperatorError: a flag is unknown or lacks its value.
    """
    # Abbreviations would change their meaning with every new setting.
    parser = _Parser(prog=program, description=description, usage="%(prog)s [settings]", allow_abbrev=False)
    group = parser.add_argument_group("settings", "each is also an environment variable; a flag wins over it")
    for option in OPTIONS:
        kind: dict[str, Any] = {"metavar": option.unit.upper()}
        if is_switch(option):
            kind = {"action": argparse.BooleanOptionalAction}
        group.add_argument(option.flag, dest=option.field, help=help_of(option).replace("%", "%%"), **kind)
    given, unknown = parser.parse_known_args(list(argv))
    if unknown:
        # The flag alone: its value may be a secret.
        flag = unknown[0].partition("=")[0]
        parser.error(f"unknown flag {flag}" if flag.startswith("-") else "everything is given by flags")
    return spelled(vars(given))


def is_switch(option: Option) -> bool:
    """Say whether the setting is on or off: its flag then takes no value, and has a twin that begins with --no-."""
    return option.unit == "0 or 1"


def help_of(option: Option) -> str:
    """Return what a flag's help says."""
    return f"{option.help} ({option.variable}, default: {option.default or 'empty'})"


def spelled(given: Mapping[str, str | bool | None]) -> dict[str, str]:
    """Return flags as text, as the settings read them, without those that were not given."""
    texts = {True: "1", False: "0"}
    return {
        field: texts[value] if isinstance(value, bool) else value
        for field, value in given.items()
        if value is not None
    }
