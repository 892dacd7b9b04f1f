#!/bin/sh
# Makes a virtual environment, installs a lock into it with hashes checked, then the project itself (editable).
#   sh scripts/setup.sh FOLDER LOCK [FURTHER REQUIREMENTS]
# Python: $PYTHON, else the first of python3, python3.14 … python3.11 that is 3.11 or newer.
set -eu
cd "$(dirname "$0")/.."
folder=$1 lock=$2 further=${3:-}

say() { echo "setup: $*"; }
fail() { echo "setup: $*" >&2; exit 1; }

new_enough() {
    command -v "$1" >/dev/null 2>&1 && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# Debian ships Python without ensurepip, and venv cannot make an environment with pip then.
complete() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

find_python() {
    python=
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if new_enough "$candidate" && { [ -z "$python" ] || complete "$candidate"; }; then
            python=$candidate
            if complete "$candidate"; then return; fi
        fi
    done
}

works() { [ -x "$folder/bin/python" ] && "$folder/bin/python" -m pip --version >/dev/null 2>&1; }

if ! works; then
    find_python
    if [ -z "$python" ] || ! complete "$python"; then
        cure="install Python 3.11 or newer with its venv module (Debian: apt-get install python3 python3-venv)"
        [ -z "${PYTHON:-}" ] && command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ] || fail "$cure"
        say "Python's venv module is missing: installing Debian's python3-venv"
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
            python3 python3-venv >/dev/null; } </dev/null || fail "that failed; $cure"
        find_python
        [ -n "$python" ] && complete "$python" || fail "no Python that will do; $cure"
    fi
    say "making $folder with $("$python" --version 2>&1)"
    rm -rf "$folder"
    "$python" -m venv "$folder"
fi

pip() { "$folder/bin/python" -m pip --disable-pip-version-check "$@" </dev/null; }

say "installing the $(grep -c '^[A-Za-z0-9]' "$lock") packages of $lock into $folder"
pip install -qq --require-hashes --requirement "$lock" || fail "the packages could not be installed; see above"
if [ -n "$further" ]; then
    say "installing what $further names; this can be large"
    pip install -qq --requirement "$further" || fail "the packages could not be installed; see above"
fi
# The build backend is in the lock, so nothing else is fetched.
pip install -qq --no-deps --no-build-isolation --editable .
say "$folder is ready"
