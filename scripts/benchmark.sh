#!/usr/bin/env bash
# Compares configurations of the batcher at one load or several, and writes a report into docs/benchmarks:
#   bash scripts/benchmark.sh 150 30 1:0 16:50 16:0 slo:200
# `bash scripts/benchmark.sh --help` lists the options.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
make --silent --no-print-directory -C "$here" .venv/.ready-dev >&2
PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}" exec "$here/.venv/bin/python" -m loadgen benchmark "$@"
