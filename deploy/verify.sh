#!/usr/bin/env bash
# Brings compose.yaml up for real, sends jobs through it, kills its parts while jobs are under way, scales it, stops it
# and takes it down. One line a check; exit code 0 when all held, 1 when one did not, 2 when nothing could be tried.
#   bash deploy/verify.sh              an engine that answers is used; else, as root on Debian, one is installed and run
#   VERIFY_NETWORK=bridge|host         the containers' network (default: bridge, and where the engine has none, host)
#   VERIFY_BASES=pull|debian           base images from a registry, or made from Debian's packages (default: pull, and
#                                      what cannot be pulled is made)
#   VERIFY_KEEP=1                      keep the images that it made, for the next run
# It touches neither .env nor deploy/secrets nor another project of the engine: names, ports and secrets are its own.
set -uo pipefail
cd "$(dirname "$0")/.."

# All of it is bounded in time; what stops it takes everything down.
if [ -z "${VERIFY_INNER:-}" ]; then
    VERIFY_INNER=1 exec timeout --foreground --kill-after 180 "${VERIFY_WITHIN_S:-1500}" bash deploy/verify.sh
fi
PROJECT=inferq-verify
BASE_PYTHON=inferq-verify-python:debian
BASE_REDIS=inferq-verify-redis:debian
BASE_RABBITMQ=inferq-verify-rabbitmq:debian
JOBS=150
# A batch of 16 takes 0.4 s, so that a kill finds jobs under way.
SLOW_MODEL=simulated:80,20

work=$(mktemp -d "${TMPDIR:-/tmp}/inferq-verify.XXXXXX")
log=$work/log
engine_pid='' tables='' made_bridge='' made_wheels='' made_images='' up=''
failed=0 passed=0
begun=$SECONDS

# Checks send what they print to the log; what is said is for the caller wherever it is said.
exec 3>&1
say() { printf '%4ds  %s\n' $((SECONDS - begun)) "$*" >&3; }
ok() { passed=$((passed + 1)); say "ok    $*"; }
bad() { failed=$((failed + 1)); say "FAIL  $*"; }
check() { # check TEXT COMMAND…
    local text=$1
    shift
    if "$@" >>"$log" 2>&1; then ok "$text"; else bad "$text"; fi
}
give_up() { say "cannot go on: $*"; tail -n 15 "$log" 2>/dev/null | sed "s/^/      | /" >&3; exit 2; }
# until_true SECONDS COMMAND…: whether it came true in time
until_true() {
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.3
    done
}

clean_up() {
    local code=$?
    trap - EXIT
    if [ -n "$up" ]; then
        [ $failed = 0 ] || compose logs --no-color --tail 60 >"${VERIFY_LOGS:-/dev/null}" 2>&1
        compose down --volumes --remove-orphans --timeout 50 >>"$log" 2>&1
        left=$(docker ps --all --quiet --filter "label=com.docker.compose.project=$PROJECT"; \
            docker volume ls --quiet --filter "label=com.docker.compose.project=$PROJECT"; \
            docker network ls --quiet --filter "label=com.docker.compose.project=$PROJECT")
        # shellcheck disable=SC2086
        [ -n "${VERIFY_KEEP:-}" ] || docker image rm inferq:verify $made_images >>"$log" 2>&1
        if [ -z "$left" ]; then ok "taken down: no container, volume or network of it is left"
        else bad "taken down: left are $left"; fi
    fi
    if [ -n "$engine_pid" ]; then
        kill "$engine_pid" 2>/dev/null
        until_true 30 eval '! kill -0 "$engine_pid"' || kill -9 "$engine_pid" 2>/dev/null
        # It leaves its bridge and its rules behind.
        [ -z "$made_bridge" ] || ip link delete docker0 >>"$log" 2>&1
        [ -z "$tables" ] || iptables-restore <<<"$tables" >>"$log" 2>&1
        say "the engine that this started is stopped"
    fi
    [ -z "$made_wheels" ] || rm -rf deploy/wheels
    [ $code = 0 ] || cp "$log" "${VERIFY_LOG:-/dev/null}" 2>/dev/null
    # What an engine left mounted is not deleted through.
    rm -rf --one-file-system "$work"
    if [ $code != 2 ]; then
        printf '%d passed, %d failed\n' $passed $failed >&3
        [ $failed = 0 ] && [ $code = 0 ] || code=1
    fi
    exit $code
}
trap clean_up EXIT
trap 'exit 1' HUP INT TERM

# --- an engine, and compose ---------------------------------------------------------------------------------------

# Debian's client first: one without its build plugin cannot build for an engine of another age.
if [ -x /usr/sbin/dockerd ] && [ -x /usr/bin/docker ]; then PATH=/usr/bin:$PATH; fi
install() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    say "installing $*"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@"; } \
        </dev/null >>"$log" 2>&1
}
engine() {
    docker info >/dev/null 2>&1 && return
    command -v dockerd >/dev/null || install docker.io iptables || return 1
    hash -r
    if [ -x /usr/bin/docker ]; then PATH=/usr/bin:$PATH; fi
    local options
    # Without rights on the network's tables, containers share the host's network.
    for options in "" "--iptables=false --bridge=none"; do
        # shellcheck disable=SC2086
        # What was there before it; where there was nothing, empty tables.
        [ -n "$tables" ] || tables=$(iptables-save 2>>"$log" | grep '[^ ]' || printf '*nat\nCOMMIT\n*filter\n:FORWARD ACCEPT\nCOMMIT')
        ip -brief link show docker0 >/dev/null 2>&1 || made_bridge=1
        dockerd --data-root "$work/data" --exec-root "$work/exec" --pidfile "$work/pid" \
            --host "unix://$work/socket" $options >"$work/dockerd.log" 2>&1 &
        engine_pid=$!
        export DOCKER_HOST=unix://$work/socket
        if until_true 30 docker info; then
            [ -z "$options" ] || network=host
            return
        fi
        kill $engine_pid 2>/dev/null
        wait $engine_pid 2>/dev/null
        engine_pid=''
    done
    cat "$work/dockerd.log" >>"$log"
    return 1
}
network=${VERIFY_NETWORK:-bridge}
engine || give_up "no Docker engine answers, and none could be started"
if docker compose version >/dev/null 2>&1; then composer=(docker compose)
elif command -v docker-compose >/dev/null || install docker-compose; then composer=(docker-compose)
else give_up "there is no docker compose"; fi
docker buildx version >/dev/null 2>&1 || export DOCKER_BUILDKIT=0
ok "an engine: $(docker version --format '{{.Server.Version}}'), $("${composer[@]}" version --short), $network network"

# --- base images --------------------------------------------------------------------------------------------------

have() { docker image inspect "$1" >/dev/null 2>&1; }
python_image=${PYTHON_IMAGE:-python:3.11-slim-bookworm}
redis_image=${REDIS_IMAGE:-redis:7.4-bookworm}
rabbitmq_image=${RABBITMQ_IMAGE:-rabbitmq:4.1-management}
offline=''
pulled() {
    [ "${VERIFY_BASES:-pull}" = pull ] || return 1
    local image
    for image in "$python_image" "$redis_image" "$rabbitmq_image"; do
        have "$image" || timeout 300 docker pull --quiet "$image" >>"$log" 2>&1 || return 1
    done
}
# rootfs TAG PACKAGES: a minimal Debian with these packages
rootfs() {
    local sources=/etc/apt/sources.list.d/debian.sources
    [ -e $sources ] || sources=/etc/apt/sources.list
    command -v mmdebstrap >/dev/null || install mmdebstrap || return 1
    mmdebstrap --quiet --variant=minbase --include="$2" --dpkgopt='path-exclude=/usr/share/doc/*' \
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

[ -x .venv/bin/inferq ] || make --no-print-directory setup >>"$log" 2>&1 || give_up "make setup failed"
if pulled; then
    ok "base images: pulled"
else
    say "no base images to pull: making them from Debian's packages"
    for image in $BASE_PYTHON $BASE_REDIS $BASE_RABBITMQ; do have $image || made_images+=" $image"; done
    [[ $made_images != *redis* ]] || made_images+=" inferq-verify-redis:root"
    [[ $made_images != *rabbitmq* ]] || made_images+=" inferq-verify-rabbitmq:root"
    debian_python && debian_redis >>"$log" 2>&1 && debian_rabbitmq >>"$log" 2>&1 || give_up "base images could not be made"
    python_image=$BASE_PYTHON redis_image=$BASE_REDIS rabbitmq_image=$BASE_RABBITMQ
    offline=1
    ok "base images: made from Debian's packages"
fi
if [ -n "$offline" ] && [ ! -d deploy/wheels ]; then
    made_wheels=1
    # Its markers are decided by the image's Python, not by this one.
    sed "s/ ; python_full_version < '3.11.3'//" requirements.lock >"$work/requirements.lock"
    .venv/bin/python -m pip download --quiet --only-binary :all: --no-deps --require-hashes \
        --requirement "$work/requirements.lock" --dest deploy/wheels >>"$log" 2>&1 || give_up "no wheels"
fi

# --- the same compose file, with names, ports and secrets of its own -----------------------------------------------

read -r ingress_port notifier_port ui_port < <(.venv/bin/python -c '
from inferq.ports import free_ports
print(*free_ports(3))')
[ $network = bridge ] || ingress_port=8080 notifier_port=8081 ui_port=15672
sh deploy/secrets.sh "$work/secrets" >>"$log" || give_up "no secrets"
# Some of what it mounts is read by other users, whose way in is the engine's.
chmod 755 "$work"
cat >"$work/env" <<END
PYTHON_IMAGE=$python_image
REDIS_IMAGE=$redis_image
RABBITMQ_IMAGE=$rabbitmq_image
INFERQ_IMAGE=inferq:verify
PIP_NO_INDEX=$offline
SECRETS_DIR=$work/secrets
INGRESS_PORT=$ingress_port
NOTIFIER_PORT=$notifier_port
RABBITMQ_UI_PORT=$ui_port
PUBLIC_NOTIFIER_URL=ws://localhost:$notifier_port
ORIGINS=http://localhost:$ingress_port
END
files=(--file compose.yaml)
if [ $network = host ]; then
    .venv/bin/python deploy/host_network.py "$work" <compose.yaml >"$work/compose.yaml" 2>>"$log" || give_up "no file"
    files=(--file "$work/compose.yaml")
fi
compose() {
    "${composer[@]}" --project-name $PROJECT --project-directory "$PWD" --env-file "$work/env" "${files[@]}" "$@"
}
url=http://127.0.0.1:$ingress_port
key_file=$work/secrets/client_key

ids() { docker ps --quiet --filter "label=com.docker.compose.project=$PROJECT" ${1:+--filter "label=com.docker.compose.service=$1"}; }
healthy() { # healthy SERVICE NUMBER
    local found
    found=$(docker ps --quiet --filter "label=com.docker.compose.project=$PROJECT" \
        --filter "label=com.docker.compose.service=$1" --filter health=healthy | wc -l)
    [ "$found" = "$2" ] && [ "$(ids "$1" | wc -l)" = "$2" ]
}
all_healthy() { # all_healthy BATCHERS
    healthy rabbitmq 1 && healthy redis 1 && healthy ingress 1 && healthy notifier 1 && healthy batcher "$1"
}
status_of() { curl --silent --max-time 5 --output /dev/null --write-out '%{http_code}' "$@"; }
answers() { local want=$1; shift; [ "$(status_of "$@")" = "$want" ]; }
submit() { INFERQ_URL=$url timeout 120 .venv/bin/inferq submit --key-file "$key_file" "$@"; }
depth() {
    curl --silent --max-time 5 --header "@$work/authorization" "$url/v1/stats" \
        | .venv/bin/python -c 'import json, sys; print(json.load(sys.stdin)["queue"]["depth"])'
}
# The key in a file, so that no list of processes shows it.
(umask 077; printf 'Authorization: Bearer %s\n' "$(cat "$key_file")" >"$work/authorization")

say "building the image"
timeout 900 docker build --file deploy/Dockerfile --target cpu --build-arg PYTHON_IMAGE="$python_image" \
    --build-arg PIP_NO_INDEX="$offline" --tag inferq:verify . >>"$log" 2>&1 || give_up "the image could not be built"
ok "the image is built: $(docker image inspect --format '{{.Size}}' inferq:verify | awk '{printf "%.0f MB", $1 / 1e6}')"

up=1
# What a run that was killed may have left.
compose down --volumes --remove-orphans >>"$log" 2>&1
compose up --detach --no-build >>"$log" 2>&1 || bad "compose up"
check "every service is healthy, one of each" until_true 180 all_healthy 1

# --- what is promised of the containers ---------------------------------------------------------------------------

each() { # each FORMAT WANTED [SERVICE…]: of every container
    local id found format=$1 want=$2
    for id in $(ids); do
        found=$(docker inspect --format "$format" "$id")
        [[ $found =~ $want ]] || { echo "$id: $found is not $want"; return 1; }
    done
}
no_root() {
    local id
    for id in $(ids); do
        [ "$(docker top "$id" -o uid= 2>/dev/null | grep -c '^ *0$')" = 0 ] || return 1
    done
}
loopback_only() { ! docker ps --filter "label=com.docker.compose.project=$PROJECT" --format '{{.Ports}}' | grep -E '0\.0\.0\.0|\[?::'; }
password() { sed -E 's#.*://[^:]*:([^@]+)@.*#\1#' "$1"; }
no_secret_shown() {
    local id secret
    for id in $(ids); do
        docker inspect "$id"; docker logs "$id" 2>&1
    done >"$work/shown"
    for secret in "$(cat "$key_file")" "$(password "$work/secrets/redis_url")" "$(password "$work/secrets/broker_url")" \
        "$(cat "$work/secrets/webhook_secret")"; do
        [ ${#secret} -gt 20 ] || return 1
        ! grep -qF "$secret" "$work/shown" || return 1
    done
}
check "each file system is read-only, no capability, no new privileges" \
    each '{{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}} {{.HostConfig.SecurityOpt}}' '^true \[ALL\] \[no-new-privileges:true\]$'
check "each has a memory limit" each '{{.HostConfig.Memory}}' '^[1-9][0-9]{7,}$'
check "no process runs as root" no_root
check "every published port is on 127.0.0.1" loopback_only
check "no secret is in what inspect or the logs show" no_secret_shown

# --- the demo -----------------------------------------------------------------------------------------------------

check "the page answers 200" answers 200 "$url/"
check "the page of operations answers 200" answers 200 "$url/ops"
check "without a key a submit is 401" answers 401 --request POST --header 'Content-Type: application/json' \
    --data '{"text": "x"}' "$url/v1/infer"
check "RabbitMQ's page answers 200" answers 200 "http://127.0.0.1:$ui_port/"
if submit "I loved it" "a complete waste of money" >"$work/demo" 2>>"$log" \
    && grep -q '^POSITIVE .*I loved it' "$work/demo" && grep -q '^NEGATIVE .*waste' "$work/demo"; then
    ok "two sentences went through, followed by push: $(head -1 "$work/demo")"
else
    bad "two sentences went through"
fi

# --- more batchers, and the kills ---------------------------------------------------------------------------------

echo "MODEL=$SLOW_MODEL" >>"$work/env"
compose up --detach --no-build >>"$log" 2>&1
check "up again with another model (simulated, slow)" until_true 120 all_healthy 1

# start_jobs NAME [NUMBER]: sends them, and returns when the first are done, in time to be in the midst of the others
start_jobs() {
    jobs=${2:-$JOBS}
    : >"$work/records"
    seq 1 "$jobs" | sed "s/^/$1 sentence /" | submit --json --unordered - >"$work/records" 2>>"$log" &
    jobs_pid=$!
    until_true 30 test -s "$work/records"
}
done_jobs() { grep -c '"status": *"done"' "$work/records"; }
all_done() { wait "$jobs_pid" && [ "$(done_jobs)" = "$jobs" ]; }
# As a crash: the engine's restart policy answers it. Only a process that is the container's is killed.
crash() {
    local id pid
    id=$(ids "$1" | head -1)
    pid=$(docker inspect --format '{{.State.Pid}}' "$id")
    if [ "$(id -u)" = 0 ] && grep -q "$id" "/proc/$pid/cgroup" 2>/dev/null; then
        kill -9 "$pid" && until_true 60 restarted "$id"
    else
        docker kill "$id" && docker start "$id"
    fi >>"$log" 2>&1
}
restarted() { [ "$(docker inspect --format '{{.RestartCount}}{{.State.Running}}' "$1")" != 0true ] && docker inspect --format '{{.State.Running}}' "$1" | grep -q true; }
for victim in batcher ingress notifier rabbitmq redis; do
    start_jobs "$victim" || bad "jobs were under way before $victim was killed"
    before=$(done_jobs)
    crash "$victim" || bad "$victim came back"
    if all_done; then ok "$victim killed after $before of $jobs jobs: all $jobs done"
    else bad "$victim killed after $before of $jobs jobs: $(done_jobs) done"; fi
    until_true 120 all_healthy 1 || bad "all healthy after $victim was killed"
done

compose up --detach --no-build --scale batcher=3 >>"$log" 2>&1
check "--scale batcher=3: three are healthy" until_true 120 all_healthy 3
took_part() { grep -o '"batcher": *"[^"]*"' "$work/records" | sort -u | wc -l; }
start_jobs scaled 400 || bad "jobs are under way with three batchers"
if all_done && [ "$(took_part)" = 3 ]; then ok "$jobs jobs done by three batchers"
else bad "$(done_jobs) of $jobs jobs done by $(took_part) of three batchers"; fi

# --- graceful stop ------------------------------------------------------------------------------------------------

start_jobs stopping 400 || bad "jobs were under way before the batchers were stopped"
ours=$(ids batcher)
compose stop batcher >>"$log" 2>&1
before=$(done_jobs)
codes=$(for id in $ours; do docker inspect --format '{{.State.ExitCode}}' "$id"; done | sort -u | tr '\n' ' ')
if [ "$codes" = "0 " ]; then ok "batchers stopped in the middle of their work exit with 0"; else bad "batchers' exit codes: $codes"; fi
compose up --detach --no-build --scale batcher=3 >>"$log" 2>&1
if [ "$before" -lt "$jobs" ] && all_done; then ok "stopped after $before of $jobs jobs and started again: all $jobs done"
else bad "stopped after $before of $jobs jobs and started again: $(done_jobs) done"; fi

everything=$(ids)
stopping_s=$SECONDS
compose stop >>"$log" 2>&1
stopping_s=$((SECONDS - stopping_s))
codes=$(for id in $everything; do docker inspect --format '{{.Name}}={{.State.ExitCode}}' "$id"; done | grep -v '=0$')
if [ -z "$codes" ]; then ok "everything stops by itself, exit code 0, in $stopping_s s"; else bad "stop: $codes"; fi
exit 0
