"""`python -m loadgen`: loads on a running pipeline, and what came of them.

The subcommands are one table: each module has `add`, which gives a parser its options, and `run`, which returns the
exit status. Without a word it is `run`.
"""

import argparse
import sys
from collections.abc import Mapping
from typing import Final, Protocol

from inferq.errors import OperatorError
from loadgen.generator import closedcommand, command
from loadgen.reports import benchcommand
from loadgen.sweeping import cachecommand
from loadgen.sweeping import command as sweepcommand

NOT_BEGUN: Final = 2
CACHE_TEST: Final = "--cache-test"


class Subcommand(Protocol):
    """A module that is one."""

    def add(self, parser: argparse.ArgumentParser, /) -> None: ...

    def run(self, options: argparse.Namespace, /) -> int: ...


SUBCOMMANDS: Final[Mapping[str, tuple[Subcommand, str]]] = {
    "run": (command, "an open-loop load (the default)"),
    "benchmark": (benchcommand, "compare configurations, and write a report"),
    "closed": (closedcommand, "a closed loop, for comparison: it hides stalls"),
    "sweep": (sweepcommand, "load by load from light to beyond saturation, and the knee"),
    "cache": (cachecommand, "repeating inputs with the cache off, local and shared (also --cache-test)"),
}


def main(argv: list[str] | None = None) -> int:
    """Run a subcommand; 2 with one line when it could not begin, otherwise what it says."""
    given = sys.argv[1:] if argv is None else argv
    if CACHE_TEST in given:
        given = ["cache", *(word for word in given if word != CACHE_TEST)]
    if not given or (given[0].startswith("-") and given[0] not in ("-h", "--help")):
        given = ["run", *given]
    parser = argparse.ArgumentParser(prog="python -m loadgen", description="Loads on a running pipeline.")
    parsers = parser.add_subparsers(dest="subcommand", required=True, metavar="SUBCOMMAND")
    for name, (module, about) in SUBCOMMANDS.items():
        module.add(parsers.add_parser(name, help=about, description=module.__doc__))
    options = parser.parse_args(given)
    try:
        return SUBCOMMANDS[options.subcommand][0].run(options)
    except OperatorError as error:
        sys.stderr.write(f"loadgen: {error}\n")
        return NOT_BEGUN
    except KeyboardInterrupt:
        sys.stderr.write("loadgen: interrupted: there is no report\n")
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
