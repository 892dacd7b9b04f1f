#!/bin/sh
# The tests start a RabbitMQ node of their own, for which the program alone is needed. As root on Debian it is
# installed when missing, without starting the system's service. Where it cannot be had, this says so, and the tests
# skip what needs it; under CI=true that is a failure.
set -eu
cd "$(dirname "$0")/.."

installed() {
    .venv/bin/python -c '
from inferq.errors import OperatorError
from inferq.rabbitnode import find_rabbitmq_server
try:
    find_rabbitmq_server()
except OperatorError:
    raise SystemExit(1)
'
}

missing() {
    {
        echo "!!! RabbitMQ is not installed, and $1."
        echo "!!! The cure: apt-get install rabbitmq-server"
    } >&2
    if [ "${CI:-}" = true ]; then
        echo "!!! CI=true: that is a failure." >&2
        exit 1
    fi
    echo "!!! The tests of this broker will be SKIPPED." >&2
    exit 0
}

! installed || exit 0
command -v apt-get >/dev/null 2>&1 || missing "there is no apt-get to install it with"
[ "$(id -u)" = 0 ] || missing "only root can install it"

echo "test: installing Debian's rabbitmq-server, its service not started"
# Debian asks this script whether a package may start its service; 101 is no.
policy=/usr/sbin/policy-rc.d
saved=
if [ -e "$policy" ] || [ -L "$policy" ]; then
    saved=$policy.saved.$$
    mv "$policy" "$saved"
fi
restore() {
    rm -f "$policy"
    [ -z "$saved" ] || mv "$saved" "$policy"
}
trap restore EXIT
trap 'exit 1' HUP INT TERM
printf '#!/bin/sh\nexit 101\n' >"$policy"
chmod 755 "$policy"

if { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
    rabbitmq-server >/dev/null; } </dev/null && installed; then
    # A test run leaves no server behind that starts with the machine.
    if [ -d /run/systemd/system ]; then
        systemctl disable --quiet rabbitmq-server.service || true
    fi
else
    missing "Debian's package could not be installed (see above)"
fi
