# What deploy/verify.sh looks at in the containers of its project; it has $PROJECT, $work, $network and `compose`.

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
each() { # each FORMAT WANTED: of every container
    local id found format=$1 want=$2
    [ -n "$(ids)" ] || return 1
    for id in $(ids); do
        found=$(docker inspect --format "$format" "$id")
        [[ $found =~ $want ]] || { echo "$id: $found is not $want"; return 1; }
    done
}
no_root() {
    local id users
    [ -n "$(ids)" ] || return 1
    for id in $(ids); do
        users=$(docker top "$id" -o pid,uid | awk 'NR > 1 {print $2}') && [ -n "$users" ] || return 1
        ! grep -x 0 <<<"$users" || return 1
    done
}
loopback_only() {
    local id ports
    if [ $network = host ]; then
        # What containers listen on is what the host listens on.
        for id in $(ids); do docker top "$id" -o pid | tail -n +2; done | .venv/bin/python -c '
import sys, psutil
pids = {int(pid) for pid in sys.stdin.read().split()}
found = {one.laddr.ip for one in psutil.net_connections("tcp") if one.status == "LISTEN" and one.pid in pids}
print(found)
sys.exit(not found or not found <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"})'
        return
    fi
    ports=$(docker ps --filter "label=com.docker.compose.project=$PROJECT" --format '{{.Ports}}')
    [ "$(grep -o '127\.0\.0\.1:[0-9]*->' <<<"$ports" | wc -l)" = 3 ] && ! grep -E '0\.0\.0\.0|\[?::' <<<"$ports"
}
password() { sed -E 's#.*://[^:]*:([^@]+)@.*#\1#' "$1"; }
no_secret_shown() {
    local id secret
    for id in $(ids); do
        docker inspect "$id"; docker logs "$id" 2>&1
    done >"$work/shown"
    [ -s "$work/shown" ] || return 1
    for secret in "$(cat "$key_file")" "$(password "$work/secrets/redis_url")" "$(password "$work/secrets/broker_url")" \
        "$(cat "$work/secrets/webhook_secret")"; do
        [ ${#secret} -gt 20 ] || return 1
        ! grep -qFf <(echo "$secret") "$work/shown" || return 1
    done
}
wrong_secret() {
    local said
    said=$(docker run --rm --env INFERQ_REDIS_URL=@/run/secrets/none inferq:verify ingress 2>&1)
    [ $? = 2 ] && [ "$(wc -l <<<"$said")" = 1 ] && grep 'the file cannot be read .*: name one' <<<"$said"
}
unchanged() {
    local before
    before=$(ids | sort)
    compose up --detach --build && [ "$(ids | sort)" = "$before" ]
}
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
