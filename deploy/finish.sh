#!/bin/sh
# The end of an image's environment, for deploy/Dockerfile: installs the project into it and leaves out what no service
# needs. Bytecode is a third of it, most of that of models' code that is never imported, and a container cannot write any.
set -eu
bin=/opt/inferq/bin
"$bin/pip" install --quiet --no-compile --no-deps --no-build-isolation /src
"$bin/pip" uninstall --quiet --yes setuptools pip
find /opt/inferq -depth -type d \( -name tests -o -name __pycache__ \) -exec rm -rf {} +
"$bin/python" -m compileall -q --invalidation-mode unchecked-hash -x '/transformers/models/(?!auto/)' /opt/inferq/lib
