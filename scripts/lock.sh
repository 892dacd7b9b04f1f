#!/bin/sh
# Writes requirements.lock and requirements-dev.lock: exact versions, the hashes of every platform's files, no addresses.
# Versions that still fit stay as they are; `sh scripts/lock.sh --upgrade` takes the newest.
set -eu
cd "$(dirname "$0")/.."
command -v uv >/dev/null 2>&1 || { echo "lock: uv is not installed (pip install uv)" >&2; exit 1; }

compile() {
    output=$1
    shift
    UV_CUSTOM_COMPILE_COMMAND="make lock" uv pip compile pyproject.toml --quiet --group build --universal \
        --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --output-file "$output" "$@"
}

compile requirements.lock --extra cpu "$@"
# Bound by the first, so that both agree.
compile requirements-dev.lock --extra cpu --extra dev --constraint requirements.lock "$@"
