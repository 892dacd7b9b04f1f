#!/bin/sh
# Writes requirements.lock, -gpu.lock, -dev.lock and -peers.lock: exact versions, the hashes of every platform's files, no addresses.
# Versions that still fit stay as they are; `sh scripts/lock.sh --upgrade` takes the newest.
set -eu
cd "$(dirname "$0")/.."
command -v uv >/dev/null 2>&1 || { echo "lock: uv is not installed (pip install uv)" >&2; exit 1; }

compile() {
    output=$1
    shift
    UV_CUSTOM_COMPILE_COMMAND="make lock" uv pip compile --quiet --universal \
        --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --output-file "$output" "$@"
}

compile requirements.lock pyproject.toml --group build --extra cpu "$@"
# Bound by the first, so that all agree. It is for the image, whose base has CUDA.
compile requirements-gpu.lock pyproject.toml --group build --extra gpu-system --constraint requirements.lock "$@"
compile requirements-dev.lock pyproject.toml --group build --extra cpu --extra dev --constraint requirements.lock "$@"
# The servers that ours is measured beside; what runs the model there is of the same versions as ours.
grep -oE '^(numpy|onnxruntime|starlette|tokenizers|uvicorn|uvloop)==[^ ;]+( ;[^\\]+)?' requirements-dev.lock |
    compile requirements-peers.lock --group pyproject.toml:peers --constraint - "$@"
