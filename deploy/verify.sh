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
cd "$(dirname "$0")/.." || exit 2

# All of it is bounded in time. It runs in a process group of its own: what stops it stops what it waits for as well, and
# then everything is taken down.
if [ -z "${VERIFY_INNER:-}" ]; then
    set -m
    VERIFY_INNER=1 timeout --kill-after 240 "${VERIFY_WITHIN_S:-1500}" bash deploy/verify.sh </dev/null &
    trap 'kill -TERM $! 2>/dev/null' HUP INT TERM
    until wait $!; code=$?; ! kill -0 $! 2>/dev/null; do :; done
    exit $code
fi
exec 9<deploy/verify.sh
flock --nonblock 9 || { echo "cannot go on: it runs already from this folder"; exit 2; }
PROJECT=inferq-verify
JOBS=150
# A batch of 16 takes 0.4 s, so that a kill finds jobs under way.
SLOW_MODEL=simulated:80,20

work=$(mktemp -d "${TMPDIR:-/tmp}/inferq-verify.XXXXXX")
log=$work/log
made_wheels='' up=''
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

. deploy/verify_engine.sh
. deploy/verify_containers.sh

left_over() {
    docker ps --all --quiet --filter "label=com.docker.compose.project=$PROJECT"
    docker volume ls --quiet --filter "label=com.docker.compose.project=$PROJECT"
    docker network ls --quiet --filter "label=com.docker.compose.project=$PROJECT"
}
taken_down() {
    compose down --volumes --remove-orphans --timeout 50
    [ -z "$(left_over)" ]
}
clean_up() {
    local code=$?
    trap - EXIT
    trap '' HUP INT TERM
    if [ -n "$up" ]; then
        [ $failed = 0 ] || compose logs --no-color --tail 60 >"${VERIFY_LOGS:-/dev/null}" 2>&1
        # What an engine was still making when its client was stopped is there a moment later.
        if taken_down >>"$log" 2>&1 || { sleep 2; taken_down >>"$log" 2>&1; }; then
            ok "taken down: no container, volume or network of it is left"
        else bad "taken down: left are $(left_over | tr '\n' ' ')"; fi
    fi
    if [ -n "$engine_pid" ]; then
        stop_engine
        say "the engine that this started is stopped"
    elif [ -z "${VERIFY_KEEP:-}" ]; then
        # shellcheck disable=SC2086
        docker image rm inferq:verify $made_images >>"$log" 2>&1
    fi
    [ -z "$tables" ] || restore_host >>"$log" 2>&1
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
trap 'say "stopped: taking down what there is"; exit 1' HUP INT TERM

# --- an engine, Compose, base images and wheels -------------------------------------------------------------------

network=${VERIFY_NETWORK:-bridge}
engine || give_up "no Docker engine answers, and none could be started"
find_compose || give_up "there is no docker compose"
ok "an engine: $(docker version --format '{{.Server.Version}}'), $("${composer[@]}" version --short), $network network"
[ -x .venv/bin/inferq ] || make --no-print-directory setup >>"$log" 2>&1 || give_up "make setup failed"
offline=''
if pulled; then
    ok "base images: pulled"
else
    say "no base images to pull: making them from Debian's packages"
    made || give_up "base images could not be made"
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
# What the caller's shell sets would win over that file.
# shellcheck disable=SC2046
unset $(sed -n 's/^#\([A-Z_]*\)=.*/\1/p' .env.example) COMPOSE_PROFILES
file=compose.yaml
if [ $network = host ]; then
    .venv/bin/python deploy/host_network.py "$work" <compose.yaml >"$work/compose.yaml" 2>>"$log" || give_up "no file"
    file=$work/compose.yaml
fi
composer+=(--project-name $PROJECT --project-directory "$PWD" --env-file "$work/env" --file "$file")
compose() { "${composer[@]}" "$@"; }
url=http://127.0.0.1:$ingress_port
key_file=$work/secrets/client_key

status_of() { curl --silent --max-time 5 --output /dev/null --write-out '%{http_code}' "$@"; }
answers() { local want=$1; shift; [ "$(status_of "$@")" = "$want" ]; }
submit() { INFERQ_URL=$url timeout --foreground 120 .venv/bin/inferq submit --key-file "$key_file" "$@"; }

up=1
# What a run that was killed may have left.
compose down --volumes --remove-orphans >>"$log" 2>&1
say "building the image"
timeout --foreground 900 "${composer[@]}" build ingress >>"$log" 2>&1 || give_up "the image could not be built"
ok "the image is built: $(docker image inspect --format '{{.Size}}' inferq:verify | awk '{printf "%.0f MB", $1 / 1e6}')"

compose up --detach --no-build >>"$log" 2>&1 || bad "compose up"
check "every service is healthy, one of each" until_true 180 all_healthy 1

# --- what is promised of the containers ---------------------------------------------------------------------------

check "each file system is read-only, no capability, no new privileges" \
    each '{{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}} {{.HostConfig.SecurityOpt}}' '^true \[ALL\] \[no-new-privileges:true\]$'
check "each has a memory limit" each '{{.HostConfig.Memory}}' '^[1-9][0-9]{7,}$'
check "no process runs as root" no_root
check "every published port is on 127.0.0.1" loopback_only
check "no secret is in what inspect or the logs show" no_secret_shown
check "a missing secret stops the start with one line that names it" wrong_secret
check "another up --build with nothing new leaves every container as it is" unchanged

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

load() {
    mkdir -m 700 "$work/reports"
    compose run --rm -T --user "$(id -u):$(id -g)" --volume "$work/reports:/reports" loadgen run --url http://ingress:8080 \
        --allow-remote --key-file /run/secrets/client_key --follow records --rate 20 --seconds 5 --out /reports/load.json
    # On a busy machine it finds itself too late to be believed; the report is there all the same.
    .venv/bin/python -c 'import json, sys; r = json.load(open(sys.argv[1])); sys.exit(r["statuses"] != {"done": 100})' \
        "$work/reports/load.json"
}
check "loadgen from the profile tools: 100 of 100 jobs done, its report kept" load

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
