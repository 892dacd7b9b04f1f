#!/bin/sh
# The tests start a RabbitMQ node of their own, for which the program alone is needed. As root on Debian it is
# installed when missing, without starting the system's service. Where it cannot be had, this says so, and the tests
# skip what needs it; under CI=true that is a failure.
set -eu
cd "$(dirname "$0")/.."

program=RabbitMQ package=rabbitmq-server skipped="The tests of this broker"
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

. scripts/required.sh
need
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

if fetch rabbitmq-server; then
    # A test run leaves no server behind that starts with the machine.
    if [ -d /run/systemd/system ]; then
        systemctl disable --quiet rabbitmq-server.service || true
    fi
else
    missing "$FAILED"
fi
