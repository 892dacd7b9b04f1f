# What the scripts that see to a program of Debian's have in common; to be sourced. They set `program`, `package` and
# `skipped`, what is skipped without it, and define `installed`.

missing() { # missing WHY: say so and end; without it tests are skipped, and under CI=true that is a failure
    {
        echo "!!! $program is not installed, and $1."
        echo "!!! The cure: apt-get install $package"
    } >&2
    if [ "${CI:-}" = true ]; then
        echo "!!! CI=true: that is a failure." >&2
        exit 1
    fi
    echo "!!! $skipped will be SKIPPED." >&2
    exit 0
}

need() { # go on only where it is missing and may be installed
    ! installed || exit 0
    command -v apt-get >/dev/null 2>&1 || missing "there is no apt-get to install it with"
    [ "$(id -u)" = 0 ] || missing "only root can install it"
}

fetch() { # fetch PACKAGES: install them, and say whether the program is there then
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" \
        >/dev/null; } </dev/null && installed
}

FAILED="Debian's package could not be installed (see above)"
