"""Writes docs/benchmarks/capacity.md from the costs beside it; `--check` only says whether it is up to date.

The arithmetic is in `loadgen/capacity/sizing.py`, the costs come from
`make bench ONLY=loadgen ARGS="--part costs --out docs/benchmarks/capacity.json"`.
"""

import argparse
from pathlib import Path

from loadgen.capacity.costs import decode
from loadgen.capacity.page import page

BENCHMARKS = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"


def main(argv: list[str] | None = None) -> int:
    """Write the page, or compare it; 1 when it differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--costs", type=Path, default=BENCHMARKS / "capacity.json", help="what was measured")
    parser.add_argument("--page", type=Path, default=BENCHMARKS / "capacity.md", help="what is written")
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args(argv)
    text = page(decode(options.costs.read_bytes()))
    if options.check:
        same = options.page.is_file() and options.page.read_text(encoding="utf-8") == text
        print(f"{options.page.name} is {'up to date' if same else 'out of date: run scripts/capacity.py'}")
        return 0 if same else 1
    options.page.write_text(text, encoding="utf-8")
    print(f"wrote {options.page}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
