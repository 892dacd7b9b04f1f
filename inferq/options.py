"""Every setting as operators see it: one environment variable each, and the same name as a flag. Pure.

`OPTIONS` is the one table that the flags of every process, `inferq config` and the documentation are made from, and
that `inferq.settings` reads the environment by. To add a setting: a row here, and a field in `Settings`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from inferq import allowed
from inferq.redaction import hidden, masked, redact
from inferq.tensors.tensor import LARGEST_INPUT_BYTES

PREFIX = "INFERQ_"
# The name of a file, told from what a slip could make of a secret.
_FILE = re.compile(r"@[^@?:]+")


@dataclass(frozen=True, kw_only=True)
class Option:
    """One setting as operators see it; ``parse`` raises ValueError with what is allowed."""

    field: str
    default: str
    parse: Callable[[str], Any]
    unit: str
    help: str
    hide: Callable[[str], str] | None = None
    # Whether "@file" stands for what is in the file. API keys say so themselves: their file is read again and again.
    by_file: bool = False

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return PREFIX + self.field.upper()

    @property
    def flag(self) -> str:
        """Its command-line flag."""
        return "--" + self.field.replace("_", "-")

    @property
    def secret(self) -> bool:
        """Whether its text must not be shown as it is."""
        return self.hide is not None

    def shown(self, text: str) -> str:
        """Return what may be shown of its text, be that allowed or not."""
        if self.hide is None or (self.by_file and _FILE.fullmatch(text)):
            return text
        return self.hide(text)


OPTIONS: tuple[Option, ...] = (
    Option(field="redis_url", default="", parse=allowed.url("redis", "rediss"), unit="URL", hide=redact,
           by_file=True, help="job records, results and events, or @file that holds it; `inferq up` starts an embedded"
                " Valkey when it is empty"),
    Option(field="broker_url", default="", parse=allowed.url("amqp", "amqps", "redis", "rediss", words=("rabbitmq",)),
           unit="URL", hide=redact, by_file=True,
           help="where jobs queue, or @file that holds it; empty: the Redis of the records; rabbitmq: a private node,"
                " with `inferq up`"),
    Option(field="broker_ui_url", default="", parse=allowed.url("http", "https"), unit="URL",
           help="the broker's own web page, to which the page of operations links; empty: none, but for the private"
                " RabbitMQ's under `inferq up`"),
    Option(field="namespace", default="", parse=allowed.pattern(r"[A-Za-z0-9_:.\-]{0,64}",
           "up to 64 letters, digits and _ : . -"), unit="text",
           help="comes before every Redis key, channel, exchange and queue"),
    Option(field="host", default="127.0.0.1", parse=allowed.pattern(r"[A-Za-z0-9_:.\-]{1,255}",
           "a host name or address"), unit="address", help="where the servers listen"),
    Option(field="ingress_port", default="8080", parse=allowed.integer(1, 65535), unit="port", help="HTTP API"),
    Option(field="notifier_port", default="8081", parse=allowed.integer(1, 65535), unit="port", help="WebSocket push"),
    Option(field="batcher_port", default="8082", parse=allowed.integer(1, 65535), unit="port",
           help="health and metrics of the first batcher; further ones take the next free ports"),
    Option(field="probe_port", default="0", parse=allowed.integer(0, 65535), unit="port",
           help="loopback port of one ingress alone, beside the one that several share, for its probes; 0: none"),
    Option(field="allow_open", default="0", parse=allowed.switch, unit="0 or 1",
           help="listen beyond loopback without API keys, although everybody who reaches the port may use it then"),
    Option(field="public_notifier_url", default="", parse=allowed.url("ws", "wss"), unit="URL",
           help="what `stream_url` begins with; empty: made from host and port"),
    Option(field="api_keys", default="", parse=allowed.api_keys, unit="keys", hide=hidden,
           help="who may call: name:key[:admin][:rate=N][:jobs=N][:webhook=URL], comma-separated, or @file; empty:"
                " everybody"),
    Option(field="key_rate", default="0", parse=allowed.integer(0, 1_000_000), unit="jobs/s",
           help="jobs that a key without a rate= of its own may submit in a second; 0: no limit"),
    Option(field="key_jobs", default="0", parse=allowed.integer(0, 10_000_000), unit="jobs",
           help="unfinished jobs that a key without a jobs= of its own may have; 0: no limit"),
    Option(field="event_shards", default="1", parse=allowed.integer(1, 256), unit="channels",
           help="pub/sub channels that events are spread over, so that a notifier hears only those that it needs; the"
                " same for all processes"),
    Option(field="origins", default="", parse=allowed.origins, unit="origins",
           help="pages from which browsers may open a WebSocket: scheme://host[:port], comma-separated, or * for any;"
                " empty: the service's own page"),
    Option(field="webhook_hosts", default="", parse=allowed.webhook_hosts, unit="hosts",
           help="names, addresses and networks that webhooks may go to though they are not public, and over http;"
                " comma-separated, each with :port if for that port alone"),
    Option(field="webhook_secret", default="", parse=allowed.webhook_secret, unit="secret", hide=masked,
           by_file=True, help="whsec_ and base64 of 24 to 64 bytes, which every key's own secret is made from, or @file"
                " that holds it; empty: no webhooks, but `inferq up` makes one"),
    Option(field="webhook_retry_ms", default="5000", parse=allowed.integer(10, 3_600_000), unit="ms",
           help="how long after its first failed try a webhook is tried again; later ones wait longer"),
    Option(field="model", default="builtin", parse=allowed.model, unit="model",
           help="builtin, a model folder, hub:<repo>[@<revision>] or simulated:<tau0_ms>,<alpha_ms>"),
    Option(field="models", default="", parse=str, unit="folder",
           help="each folder directly in it is a further model by the folder's name, with its own queues; empty: none"),
    Option(field="serves", default="", parse=allowed.pattern(r"[A-Za-z0-9._\-]{0,100}", "the name of a model"),
           unit="model", help="which of the models a batcher serves; empty: that of INFERQ_MODEL"),
    Option(field="max_input_bytes", default="1048576", parse=allowed.integer(1024, LARGEST_INPUT_BYTES), unit="bytes",
           help="most bytes of a job's tensors together, as they lie in memory"),
    Option(field="max_output_bytes", default="65536", parse=allowed.integer(1024, 131_072), unit="bytes",
           help="most bytes of a job's outputs together, as they lie in memory; a job with more fails"),
    Option(field="device", default="auto", parse=allowed.choice("auto", "cpu", "cuda"), unit="device",
           help="auto takes CUDA where it works, else the CPU, and says so"),
    Option(field="precision", default="fp32", parse=allowed.choice("fp32", "int8", "fp16"), unit="type",
           help="what the model computes in; int8 and fp16 need a file of their own in the model's folder"),
    Option(field="gpu_memory_percent", default="90", parse=allowed.integer(1, 100), unit="%",
           help="how much of a GPU's memory all batchers on it may take together, each as much as any other; there"
                " are INFERQ_BATCHERS for each model"),
    Option(field="batch_policy", default="slo", parse=allowed.choice("fixed", "greedy", "slo"), unit="policy",
           help="slo steers for a latency by predicted times, greedy never waits, fixed waits for a full batch"),
    Option(field="max_batch_size", default="16", parse=allowed.integer(1, 1024), unit="jobs",
           help="most jobs in a batch; a batcher prefetches four times as many"),
    Option(field="max_wait_ms", default="50", parse=allowed.integer(0, 60_000), unit="ms",
           help="fixed: how long the window stays open after its oldest job arrived"),
    Option(field="slo_ms", default="200", parse=allowed.integer(1, 600_000), unit="ms",
           help="slo: the latency that batching steers for, from acceptance to stored result; it expires nothing"),
    Option(field="max_batch_tokens", default="4096", parse=allowed.integer(1, 1_000_000), unit="tokens",
           help="most tokens in a batch, padding counted; a longer job runs alone"),
    Option(field="queue_limit", default="10000", parse=allowed.integer(1, 10_000_000), unit="jobs",
           help="jobs of a model waiting before new ones of it are refused with 503"),
    Option(field="max_attempts", default="3", parse=allowed.integer(1, 20), unit="attempts",
           help="times a job alone may crash or hang the engine before it is dead-lettered"),
    Option(field="engine_timeout_ms", default="30000", parse=allowed.integer(10, 3_600_000), unit="ms",
           help="how long one batch may compute at most before its engine counts as hung"),
    Option(field="hang_factor", default="100", parse=allowed.integer(2, 1_000_000), unit="times",
           help="an engine also counts as hung once a batch takes so many times what was predicted, and 2 s at least"),
    Option(field="breaker_failures", default="5", parse=allowed.integer(1, 1000), unit="failures",
           help="in a row, after which a circuit breaker opens: of an ingress to Redis or to RabbitMQ, of a batcher to"
                " its engine"),
    Option(field="breaker_open_ms", default="30000", parse=allowed.integer(10, 3_600_000), unit="ms",
           help="how long an open circuit breaker lets nothing through, unless a sign of life comes earlier"),
    Option(field="breaker_successes", default="2", parse=allowed.integer(1, 1000), unit="successes",
           help="after which a half-open circuit breaker closes"),
    Option(field="breaker_probes", default="2", parse=allowed.integer(1, 1000), unit="calls",
           help="that a half-open circuit breaker lets through at a time"),
    Option(field="stall_s", default="0", parse=allowed.integer(0, 86_400), unit="s",
           help="how long nothing may move in a batcher while work waits before its liveness fails; 0: twice the"
                " engine's time and 30 s, 60 s at least"),
    Option(field="result_ttl_s", default="3600", parse=allowed.integer(1, 31_536_000), unit="s",
           help="how long a final record is kept"),
    Option(field="job_ttl_s", default="86400", parse=allowed.integer(1, 31_536_000), unit="s",
           help="after how long a job that never ended is expired"),
    Option(field="batchers", default="1", parse=allowed.integer(1, 64), unit="processes",
           help="batchers under `inferq up`"),
    Option(field="ingresses", default="1", parse=allowed.integer(1, 64), unit="processes",
           help="ingresses under `inferq up`; above 1 they share INFERQ_INGRESS_PORT, also when started by hand"),
    Option(field="threads", default="0", parse=allowed.integer(0, 1024), unit="threads",
           help="threads for the model in all; 0: this process's share of the cores"),
    Option(field="sessions", default="auto", parse=allowed.integer_or("auto", 1, 1024), unit="runs",
           help="batches that run at a time and share the threads; auto: what a measurement at the start finds best"),
    Option(field="cache", default="local", parse=allowed.choice("off", "local", "shared"), unit="place",
           help="where results of equal inputs are kept: local in each batcher, shared in Redis too"),
    Option(field="cache_size", default="1000", parse=allowed.integer(1, 10_000_000), unit="results",
           help="most results that a batcher keeps; the oldest unused go"),
    Option(field="routing", default="shared", parse=allowed.choice("shared", "hash"), unit="way",
           help="shared: all batchers of a model take from one queue; hash: equal inputs go to one batcher, by shards"
                " with a queue each"),
    Option(field="shards", default="auto", parse=allowed.integer_or("auto", 1, 1024), unit="shards",
           help="hash: how many shards each model's jobs are spread over, the same for all processes; auto: 64, and 1"
                " where routing is shared"),
    Option(field="log_level", default="info", parse=allowed.choice("debug", "info", "warning", "error"), unit="level",
           help="what is logged"),
    Option(field="log_format", default="auto", parse=allowed.choice("auto", "console", "json"), unit="format",
           help="auto: console on a terminal, JSON lines elsewhere"),
    Option(field="cache_dir", default="", parse=str, unit="folder",
           help="where downloaded models are kept; empty: ~/.cache/inferq"),
)  # fmt: skip  # one row a setting reads as the table that it is

BY_FIELD: Mapping[str, Option] = {option.field: option for option in OPTIONS}
