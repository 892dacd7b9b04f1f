# An engine, Compose and base images for deploy/verify.sh, which reads this file and has `say`, `until_true`, `give_up`,
# $log and $work.

engine_pid='' tables='' forwarding='' made_bridge='' made_images=''
BASE_PYTHON=inferq-verify-python:debian
BASE_REDIS=inferq-verify-redis:debian
BASE_RABBITMQ=inferq-verify-rabbitmq:debian

# Debian's client first: one without its build plugin cannot build for an engine of another age.
prefer_debian() { if [ -x /usr/sbin/dockerd ] && [ -x /usr/bin/docker ]; then PATH=/usr/bin:$PATH; fi; }
# In a session of its own: an installation that is stopped half way leaves a machine that can install nothing.
install() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    say "installing $*"
    setsid --wait sh -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
        apt-get install -qq -y --no-install-recommends "$@"' sh "$@" </dev/null >>"$log" 2>&1
}
# What an engine changes of the host and leaves so: its rules, forwarding between networks, and a bridge.
remember_host() {
    local table
    [ -z "$tables" ] || return 0
    tables=$(for table in nat filter; do
        iptables-save --table $table 2>>"$log" | grep '^[*:-]' || echo "*$table"
        # Docker drops what is forwarded by others.
        [ $table = nat ] || iptables-save --table filter 2>>"$log" | grep -q '^:FORWARD' || echo ':FORWARD ACCEPT'
        echo COMMIT
    done)
    forwarding=$(cat /proc/sys/net/ipv4/ip_forward)
    ip -brief link show docker0 >/dev/null 2>&1 || made_bridge=1
}
restore_host() {
    [ -z "$made_bridge" ] || ip link delete docker0
    iptables-restore <<<"$tables"
    echo "$forwarding" >/proc/sys/net/ipv4/ip_forward
}
engine() {
    prefer_debian
    docker info >/dev/null 2>&1 && return
    command -v dockerd >/dev/null || install docker.io iptables || return 1
    hash -r
    prefer_debian
    remember_host
    local options
    # Without rights on the network's tables, containers share the host's network.
    for options in "" "--iptables=false --bridge=none"; do
        # A group of its own, so that what stops this script leaves it to take down its containers; it ends with it.
        # shellcheck disable=SC2086
        setsid setpriv --pdeathsig TERM dockerd --data-root "$work/data" --exec-root "$work/exec" --pidfile "$work/pid" \
            --host "unix://$work/socket" $options >"$work/dockerd.log" 2>&1 9<&- &
        engine_pid=$!
        export DOCKER_HOST=unix://$work/socket
        if until_true 30 docker info; then
            [ -z "$options" ] || network=host
            return
        fi
        stop_engine
    done
    cat "$work/dockerd.log" >>"$log"
    return 1
}
stop_engine() {
    kill "$engine_pid" 2>/dev/null
    until_true 30 eval '! kill -0 "$engine_pid"' || kill -9 "$engine_pid" 2>/dev/null
    wait "$engine_pid" 2>/dev/null
    engine_pid=''
}
find_compose() {
    if docker compose version >/dev/null 2>&1; then composer=(docker compose)
    elif command -v docker-compose >/dev/null || install docker-compose; then composer=(docker-compose)
    else return 1; fi
    docker buildx version >/dev/null 2>&1 || export DOCKER_BUILDKIT=0
}

have() { docker image inspect "$1" >/dev/null 2>&1; }
python_image=${PYTHON_IMAGE:-python:3.11-slim-bookworm}
redis_image=${REDIS_IMAGE:-redis:7.4-bookworm}
rabbitmq_image=${RABBITMQ_IMAGE:-rabbitmq:4.1-management}
pulled() {
    [ "${VERIFY_BASES:-pull}" = pull ] || return 1
    local image
    for image in "$python_image" "$redis_image" "$rabbitmq_image"; do
        have "$image" || timeout --foreground 300 docker pull --quiet "$image" >>"$log" 2>&1 || return 1
    done
}
# rootfs TAG PACKAGES: a minimal Debian with these packages
rootfs() {
    local sources=/etc/apt/sources.list.d/debian.sources
    [ -e $sources ] || sources=/etc/apt/sources.list
    command -v mmdebstrap >/dev/null || install mmdebstrap || return 1
    # It works in a folder that is gone when this is stopped.
    TMPDIR=$work mmdebstrap --quiet --variant=minbase --include="$2" --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-exclude=/usr/share/man/*' bookworm "$work/root.tar" $sources >>"$log" 2>&1 \
        && docker import "$work/root.tar" "$1" >>"$log" 2>&1
    local code=$?
    rm -f "$work/root.tar"
    return $code
}
# The users and folders that the published images have.
debian_redis() {
    have $BASE_REDIS || { rootfs inferq-verify-redis:root redis-server && docker build --quiet --tag $BASE_REDIS - <<'END'; }
FROM inferq-verify-redis:root
RUN groupmod -g 999 redis && usermod -u 999 -g 999 redis && mkdir -p /data && chown 999:999 /data
VOLUME /data
END
}
debian_rabbitmq() {
    have $BASE_RABBITMQ || { rootfs inferq-verify-rabbitmq:root rabbitmq-server && docker build --quiet --tag $BASE_RABBITMQ - <<'END'; }
FROM inferq-verify-rabbitmq:root
RUN groupmod -g 999 rabbitmq && usermod -u 999 -g 999 rabbitmq && mkdir -p /etc/rabbitmq/conf.d \
    && echo '[rabbitmq_management,rabbitmq_prometheus].' >/etc/rabbitmq/enabled_plugins \
    && rm -rf /var/lib/rabbitmq && mkdir /var/lib/rabbitmq \
    && chown -R 999:999 /var/lib/rabbitmq /var/log/rabbitmq /etc/rabbitmq
ENV HOME=/var/lib/rabbitmq
VOLUME /var/lib/rabbitmq
CMD ["/usr/lib/rabbitmq/bin/rabbitmq-server"]
END
}
debian_python() { have $BASE_PYTHON || rootfs $BASE_PYTHON python3,python3-venv,ca-certificates; }
made() {
    local image
    for image in $BASE_PYTHON $BASE_REDIS $BASE_RABBITMQ; do have $image || made_images+=" $image"; done
    [[ $made_images != *redis* ]] || made_images+=" inferq-verify-redis:root"
    [[ $made_images != *rabbitmq* ]] || made_images+=" inferq-verify-rabbitmq:root"
    debian_python && debian_redis >>"$log" 2>&1 && debian_rabbitmq >>"$log" 2>&1 || return 1
    python_image=$BASE_PYTHON redis_image=$BASE_REDIS rabbitmq_image=$BASE_RABBITMQ
}
