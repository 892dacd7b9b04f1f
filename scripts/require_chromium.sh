#!/bin/sh
# The browser tests drive a Chromium that is installed; they download none. As root on Debian it is installed when
# missing. Where it cannot be had, this says so, and the tests are skipped; under CI=true that is a failure.
set -eu

installed() { command -v chromium >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1; }

missing() {
    {
        echo "!!! Chromium is not installed, and $1."
        echo "!!! The cure: apt-get install chromium"
    } >&2
    if [ "${CI:-}" = true ]; then
        echo "!!! CI=true: that is a failure." >&2
        exit 1
    fi
    echo "!!! The browser tests will be SKIPPED." >&2
    exit 0
}

! installed || exit 0
command -v apt-get >/dev/null 2>&1 || missing "there is no apt-get to install it with"
[ "$(id -u)" = 0 ] || missing "only root can install it"

echo "test-browser: installing Debian's chromium"
{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium \
    fonts-dejavu-core >/dev/null; } </dev/null && installed || missing "Debian's package could not be installed (see above)"
