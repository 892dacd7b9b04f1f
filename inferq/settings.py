"""Every setting: one environment variable each, and the same name as a flag.

Pure: the environment and the flags come in as mappings, and frozen `Settings` or an `OperatorError` of one
line come out. A flag wins over the variable, the variable over the default. Which there are, `inferq.options` says.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from inferq.addresses import LOOPBACK, host_port
from inferq.breaker import Limits
from inferq.errors import OperatorError
from inferq.modelspec import parse as parse_model
from inferq.names import Names
from inferq.options import OPTIONS, PREFIX

# What the commands that call the API read by themselves: a key is the caller's, not the deployment's.
FOR_CLIENTS = frozenset({"INFERQ_API_KEY", "INFERQ_URL"})
# With INFERQ_ROUTING=hash, unless it is said: enough for an even split among a dozen batchers, few enough to watch.
HASH_SHARDS = 64


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of one process, read once at its start."""

    redis_url: str
    broker_url: str
    broker_ui_url: str
    namespace: str
    host: str
    ingress_port: int
    notifier_port: int
    batcher_port: int
    probe_port: int
    allow_open: bool
    public_notifier_url: str
    api_keys: str = field(repr=False)
    key_rate: int
    key_jobs: int
    event_shards: int
    origins: str
    webhook_hosts: str
    webhook_secret: str = field(repr=False)
    webhook_retry_ms: int
    model: str
    models: str
    serves: str
    max_input_bytes: int
    max_output_bytes: int
    device: str
    precision: str
    gpu_memory_percent: int
    batch_policy: str
    max_batch_size: int
    max_wait_ms: int
    slo_ms: int
    max_batch_tokens: int
    queue_limit: int
    max_attempts: int
    engine_timeout_ms: int
    hang_factor: int
    breaker_failures: int
    breaker_open_ms: int
    breaker_successes: int
    breaker_probes: int
    stall_s: int
    result_ttl_s: int
    job_ttl_s: int
    batchers: int
    ingresses: int
    threads: int
    sessions: int
    cache: str
    cache_size: int
    routing: str
    shards: int
    log_level: str
    log_format: str
    cache_dir: str

    @property
    def names(self) -> Names:
        """The names of this deployment."""
        return Names(
            namespace=self.namespace,
            default_model=self.model_name,
            shards=self.shard_count,
            event_shards=self.event_shards,
        )

    @property
    def by_hash(self) -> bool:
        """Whether equal inputs go to one batcher."""
        return self.routing == "hash"

    @property
    def shard_count(self) -> int:
        """How many shards each model's jobs are spread over."""
        return self.shards or (HASH_SHARDS if self.by_hash else 1)

    @property
    def model_name(self) -> str:
        """What records and queues call the model."""
        return parse_model(self.model).name

    @property
    def served(self) -> str:
        """The name of the model that a batcher with these settings serves."""
        return self.serves or self.model_name

    @property
    def breaker_limits(self) -> Limits:
        """When a circuit breaker opens and closes."""
        return Limits(
            failures=self.breaker_failures,
            open_ms=self.breaker_open_ms,
            successes=self.breaker_successes,
            probes=self.breaker_probes,
        )

    @property
    def prefetch(self) -> int:
        """How many jobs a batcher holds unfinished at most."""
        return 4 * self.max_batch_size

    @property
    def stream_url(self) -> str:
        """What a job's `stream_url` begins with."""
        if self.public_notifier_url:
            return self.public_notifier_url.rstrip("/")
        return f"ws://{host_port(self.host, self.notifier_port)}"

    @property
    def cache_path(self) -> Path | None:
        """Where downloaded models are kept; None: the usual place."""
        return Path(self.cache_dir) if self.cache_dir else None


def no_files(name: str) -> str:
    """Read no file: for who has none to read; raises ValueError."""
    raise ValueError(f"the file {name} is not read here")


def load(
    environ: Mapping[str, str],
    flags: Mapping[str, str | None] | None = None,
    *,
    read: Callable[[str], str] = no_files,
) -> tuple[Settings, dict[str, str]]:
    """Read the settings; the second value says of each field whether a flag, the environment or the default set it.

    ``read`` returns the line that a file holds, by its name, or raises ValueError: a secret may be given as ``@file``.

    Raises:
        OperatorError: a value is not allowed; the text names the variable, the value and what is.
    """
    flags = flags or {}
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for option in OPTIONS:
        name = option.variable
        raw = flags.get(option.field)
        if raw is not None:
            name, origin = option.flag, "flag"
        elif option.variable in environ:
            raw, origin = environ[option.variable], "environment"
        else:
            raw, origin = option.default, "default"
        said = f"{name}={option.shown(raw)!r}"
        if option.by_file and raw.startswith("@"):
            try:
                raw = read(raw[1:])
            except ValueError as error:
                raise OperatorError(f"{said}: {error}") from None
            said += f" holds {option.shown(raw)!r}, which"
        try:
            values[option.field] = option.parse(raw)
        except ValueError as error:
            raise OperatorError(f"{said} is not allowed: it must be {error}") from None
        origins[option.field] = origin
    settings = Settings(**values)
    _check(settings)
    return settings, origins


def _check(settings: Settings) -> None:
    if settings.host not in LOOPBACK and not settings.api_keys and not settings.allow_open:
        raise OperatorError(
            f"INFERQ_HOST={settings.host!r} would open the service to everybody who reaches it:"
            " set INFERQ_API_KEYS, or INFERQ_ALLOW_OPEN=1 if that is meant, or listen on 127.0.0.1"
        )
    ports = (settings.ingress_port, settings.notifier_port, settings.batcher_port)
    if len(set(ports)) != len(ports):
        raise OperatorError("INFERQ_INGRESS_PORT, INFERQ_NOTIFIER_PORT and INFERQ_BATCHER_PORT must differ")
    if settings.probe_port in ports:
        raise OperatorError("INFERQ_PROBE_PORT must differ from the ports that the servers listen on")
    if settings.by_hash and settings.shards == 1:
        raise OperatorError(
            "INFERQ_ROUTING=hash needs two shards at least: set INFERQ_SHARDS, or leave it out for 64"
        )
    if settings.by_hash and settings.batchers > settings.shard_count:
        raise OperatorError(
            f"INFERQ_BATCHERS={settings.batchers} is more than there are shards ({settings.shard_count}), so that some"
            " batchers would have nothing to do: set INFERQ_SHARDS to several times their number"
        )
    if settings.shards > 1 and not settings.by_hash:
        raise OperatorError(
            f"INFERQ_SHARDS={settings.shards} spreads jobs by their inputs: set INFERQ_ROUTING=hash, or leave it out"
        )


def unknown(environ: Mapping[str, str]) -> list[str]:
    """Name the INFERQ_ variables that are no settings, to warn of a slip of the pen."""
    known = {option.variable for option in OPTIONS} | FOR_CLIENTS
    return sorted(name for name in environ if name.startswith(PREFIX) and name not in known)


def exposed(flags: Mapping[str, str]) -> list[str]:
    """Say of each flag that holds a secret that everybody can read it in the list of processes, and what to do."""
    return [
        f"{option.flag} can be read by everybody on this machine: set {option.variable} instead"
        for option in OPTIONS
        if option.shown(flags.get(option.field, "")) != flags.get(option.field, "")
    ]


def require_servers(settings: Settings) -> Settings:
    """Return settings with both URLs filled in, as a single process needs them.

    Raises:
        OperatorError: there is no Redis URL, or the broker is one that only `inferq up` can start.
    """
    if not settings.redis_url:
        raise OperatorError(
            "INFERQ_REDIS_URL is not set: name a Redis such as redis://127.0.0.1:6379/0,"
            " or start everything with `inferq up`"
        )
    if settings.broker_url == "rabbitmq":
        raise OperatorError(
            "INFERQ_BROKER_URL=rabbitmq starts a private node under `inferq up` only: name an amqp:// URL here"
        )
    return with_values(settings, broker_url=settings.broker_url or settings.redis_url)


def with_values(settings: Settings, **changes: Any) -> Settings:
    """Return a copy with some fields replaced."""
    return replace(settings, **changes)


def to_environ(settings: Settings) -> dict[str, str]:
    """Spell settings as environment variables, for a child process."""
    spelled = {}
    for option in OPTIONS:
        value = getattr(settings, option.field)
        spelled[option.variable] = str(int(value)) if isinstance(value, bool) else str(value)
    return spelled
