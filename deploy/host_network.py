"""Rewrites compose.yaml for an engine whose containers cannot have networks of their own: all share the loopback.

Reads the file from standard input and writes the other to standard output; for `deploy/verify.sh`. The services keep
their ports, which must be free, and their names, which then mean 127.0.0.1. The health check of one of several batchers
is answered by the one that has the first port.
"""

import sys
from pathlib import Path

import yaml

LOOPBACK = "127.0.0.1"
RABBITMQ = {
    "RABBITMQ_NODENAME": "rabbit@localhost",
    "ERL_EPMD_ADDRESS": LOOPBACK,
    "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
}


def main() -> None:
    """Rewrite; the one argument is a folder for RabbitMQ's configuration on loopback."""
    folder = Path(sys.argv[1])
    compose = yaml.safe_load(sys.stdin)
    for name, service in compose["services"].items():
        service.pop("ports", None)
        service.pop("hostname", None)
        service["network_mode"] = "host"
        if "build" in service:
            service["build"]["network"] = "host"
        service["extra_hosts"] = [f"{one}:{LOOPBACK}" for one in ("rabbitmq", "redis", "ingress")]
        if name == "rabbitmq":
            service["environment"].update(RABBITMQ)
            config = Path("deploy/rabbitmq.conf").read_text(encoding="utf-8")
            config = config.replace("default = 5672", f"default = {LOOPBACK}:5672")
            # The images have the plugin for Prometheus as well, which listens at a port of its own.
            config += f"management.tcp.ip = {LOOPBACK}\nprometheus.tcp.ip = {LOOPBACK}\n"
            (folder / "rabbitmq.conf").write_text(config, encoding="utf-8")
            service["volumes"] = [
                volume.replace("./deploy/rabbitmq.conf", str(folder / "rabbitmq.conf"))
                for volume in service["volumes"]
            ]
        elif name == "redis":
            service["command"] += ["--bind", LOOPBACK]
        elif "INFERQ_HOST" in service["environment"]:
            service["environment"]["INFERQ_HOST"] = LOOPBACK
    yaml.safe_dump(compose, sys.stdout)


if __name__ == "__main__":
    main()
