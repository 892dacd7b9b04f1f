#!/bin/sh
# Makes the secrets that compose.yaml mounts, each where there is none yet: a second run changes nothing.
#   sh deploy/secrets.sh [FOLDER]        default: deploy/secrets beside this script
# The folder is closed to others. The files in it are open to all, since each container reads its own under another
# user's number, and sees no more than the file that is mounted.
set -eu
folder=${1:-$(dirname "$0")/secrets}
umask 077
mkdir -p "$folder"
chmod 700 "$folder"
cd "$folder"

random() { od -An -N "$1" -t x1 /dev/urandom | tr -d ' \n'; }

# Whole or not at all: $1 from standard input.
keep() {
    cat >"$1.new"
    chmod 444 "$1.new"
    mv "$1.new" "$1"
}

# Two files hold each password, the server's and the clients': both or none.
if ! { [ -s rabbitmq_conf ] && [ -s broker_url ]; }; then
    password=$(random 24)
    printf 'default_user = inferq\ndefault_pass = %s\ndefault_user_tags.administrator = true\n' "$password" | keep rabbitmq_conf
    printf 'amqp://inferq:%s@rabbitmq:5672/\n' "$password" | keep broker_url
fi
if ! { [ -s redis_conf ] && [ -s redis_url ]; }; then
    password=$(random 24)
    printf 'requirepass %s\n' "$password" | keep redis_conf
    printf 'redis://:%s@redis:6379/0\n' "$password" | keep redis_url
fi
if ! { [ -s api_keys ] && [ -s client_key ]; }; then
    key=$(random 32)
    printf '# name:key[:admin][:rate=N][:jobs=N][:webhook=URL], one a line; read again when it changes\nowner:%s:admin\n' \
        "$key" | keep api_keys
    printf '%s\n' "$key" | keep client_key
fi
[ -s webhook_secret ] || printf 'whsec_%s\n' "$(head -c 32 /dev/urandom | base64 | tr -d '\n')" | keep webhook_secret
echo "secrets: in $(pwd); client_key is what callers send (inferq submit --key-file $folder/client_key)"
