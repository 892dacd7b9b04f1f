#!/bin/sh
# The browser tests drive a Chromium that is installed; they download none. As root on Debian it is installed when
# missing. Where it cannot be had, this says so, and the tests are skipped; under CI=true that is a failure.
set -eu
cd "$(dirname "$0")/.."

program=Chromium package=chromium skipped="The browser tests"
installed() { command -v chromium >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1; }

. scripts/required.sh
need
echo "test-browser: installing Debian's chromium"
fetch chromium fonts-dejavu-core || missing "$FAILED"
