"""`python -m loadgen`: loads on a running pipeline, and what came of them."""

import sys
from typing import Final

INTERRUPTED: Final = 130


def main(argv: list[str] | None = None) -> int:
    """Run a subcommand; 2 with one line when it could not begin, otherwise what it says."""
    try:
        # Their imports take long enough to be interrupted in.
        from loadgen.subcommands import carried_out

        return carried_out(argv)
    except KeyboardInterrupt:
        sys.stderr.write("loadgen: interrupted: there is no report\n")
        return INTERRUPTED


if __name__ == "__main__":
    raise SystemExit(main())
