"""`python -m loadgen.reports`: what `scripts/benchmark.sh` calls."""

import argparse

from loadgen.reports import benchmark


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark that the options ask for."""
    parser = argparse.ArgumentParser(prog="scripts/benchmark.sh")
    benchmark.add(parser)
    return benchmark.run(parser.parse_args(argv))


if __name__ == "__main__":
    raise SystemExit(main())
