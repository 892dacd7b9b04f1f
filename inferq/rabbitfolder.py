"""The data folder of a private RabbitMQ node: who the node is, and every file and path that it starts from.

Name and password stay in the folder over restarts: a quorum queue belongs to the name of its node.
"""

import json
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from inferq.childprocess import inherited_env, last_line
from inferq.errors import OperatorError
from inferq.ports import LOOPBACK
from inferq.secretfile import write_secret

_USER = "inferq"
_PLUGINS = "[rabbitmq_management].\n"
# The write-ahead log of quorum queues is in memory too; the default of 512 MB suits a server, not a desk.
_WAL_MAX_BYTES = 64_000_000
_CONFIG = """\
listeners.tcp.1 = {host}:{port}
management.tcp.ip = {host}
management.tcp.port = {management_port}
default_user = {user}
default_pass = {password}
default_user_tags.administrator = true
disk_free_limit.absolute = 50MB
raft.wal_max_size_bytes = {wal_max_bytes}
log.file.level = warning
log.file.rotation.size = 10485760
log.file.rotation.count = 2
log.console = false
"""


@dataclass(frozen=True, kw_only=True)
class RabbitIdentity:
    """What must stay the same over restarts on one data folder."""

    node_name: str
    user: str
    password: str


@dataclass(frozen=True, kw_only=True)
class RabbitPorts:
    """The ports of one node, all on loopback."""

    amqp: int
    management: int
    distribution: int
    epmd: int


class RabbitFolder:
    """One node's folder; whoever uses it holds its lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: RabbitIdentity | None = None

    @property
    def console(self) -> Path:
        """Where the node's output goes until it has its logs."""
        return self.path / "startup.log"

    @property
    def identity(self) -> RabbitIdentity:
        """The node's name and password, known after `load`."""
        if self._known is None:
            raise RuntimeError("not started")
        return self._known

    def load(self) -> None:
        """Read who the node is, making a name and a password for a new folder; raises OperatorError."""
        self._known = _load_identity(self.path / "node.json")

    def write(self, ports: RabbitPorts) -> None:
        """Write the node's configuration for these ports."""
        for name in ("conf.d", "log", "data", "schema"):
            (self.path / name).mkdir(mode=0o700, exist_ok=True)
        cookie = self.path / ".erlang.cookie"
        if not cookie.exists():
            write_secret(cookie, secrets.token_hex(20))
        write_secret(
            self.path / "rabbitmq.conf",
            _CONFIG.format(
                host=LOOPBACK,
                port=ports.amqp,
                management_port=ports.management,
                user=self.identity.user,
                password=self.identity.password,
                wal_max_bytes=_WAL_MAX_BYTES,
            ),
        )
        write_secret(self.path / "enabled_plugins", _PLUGINS)
        write_secret(self.path / "advanced.config", "[].\n")
        write_secret(self.path / "rabbitmq-env.conf", "")

    def env(self, ports: RabbitPorts) -> dict[str, str]:
        """Return our environment without what aims at another node, and with every path of this one."""
        home = self.path
        return inherited_env("RABBITMQ_", "ERL_", "NOTIFY_SOCKET") | {
            "HOME": str(home),
            "RABBITMQ_NODENAME": self.identity.node_name,
            "RABBITMQ_MNESIA_BASE": str(home / "data"),
            "RABBITMQ_LOG_BASE": str(home / "log"),
            "RABBITMQ_SCHEMA_DIR": str(home / "schema"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(home / "schema"),
            "RABBITMQ_CONF_ENV_FILE": str(home / "rabbitmq-env.conf"),
            "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
            "RABBITMQ_CONFIG_FILES": str(home / "conf.d"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(home / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "enabled_plugins"),
            "RABBITMQ_PID_FILE": str(home / "rabbitmq.pid"),
            "RABBITMQ_DIST_PORT": str(ports.distribution),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                # Schedulers that spin would take the cores of those they serve.
                "+sbwt none +sbwtdcpu none +sbwtdio none "
                # epmd is a child of ours and not to be left behind by Erlang as a daemon.
                "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}"
            ),
            "ERL_EPMD_PORT": str(ports.epmd),
            "ERL_EPMD_ADDRESS": LOOPBACK,
            "ERL_CRASH_DUMP_BYTES": "0",
            # The script then becomes the Erlang machine itself, so signals need no go-between.
            "RUNNING_UNDER_SYSTEMD": "true",
        }

    def complaint(self) -> str:
        """Return the last line of the node's log, or else of its console, and where the logs are."""
        log = self.path / "log" / f"{self.identity.node_name}.log"
        said = last_line(log) or last_line(self.console) or "it said nothing"
        return f"{said} (logs: {log.parent})"

    def has_on_disk(self, queue: str) -> bool:
        """Say whether a quorum queue of vhost ``/`` is in the node's register on disk."""
        name = f"%2F_{queue}".encode()
        # With the low byte of its length, as Erlang writes it, lest a longer name that begins so be taken for it.
        entry = bytes([len(name) % 256]) + name
        registers = self.path.glob("data/*/quorum/*/names.dets")
        return any(entry in register.read_bytes() for register in registers)


def _load_identity(file: Path) -> RabbitIdentity:
    """Return the name and password that the folder's node has, making them for a new folder."""
    try:
        return RabbitIdentity(**json.loads(file.read_text()))
    except FileNotFoundError:
        identity = RabbitIdentity(
            node_name=f"inferq-{secrets.token_hex(4)}@localhost", user=_USER, password=secrets.token_hex(16)
        )
    except (OSError, ValueError, TypeError) as error:
        raise OperatorError(f"{file} cannot be read; remove its folder to begin without queues") from error
    write_secret(file, json.dumps(asdict(identity)))
    return identity
