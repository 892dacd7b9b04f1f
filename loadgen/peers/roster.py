"""The peers: what each is, how it is started and set up, and what it does not promise. Pure.

A wait is what a peer itself recommends or does by itself, except where its defaults are made for something else: the
reason stands in ``settings``. Everything else that could be a difference is the same for all: `servers/model.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

Server = Literal["valkey", "rabbitmq"]

SERVERS: Final = "loadgen.peers.servers"
OURS: Final = "ours"
# What none of them does; each peer's own line comes beside it.
COMMON_LACKS: Final = (
    "the connection is the job: a client that loses it loses the answer, there is no record to read later, no push to"
    " another client, no cancelling, no deadline that ends a job in the queue"
)
_MEMORY: Final = "requests wait in memory: a crash or a restart of the server loses all that were taken"


@dataclass(frozen=True, kw_only=True)
class Peer:
    """One peer.

    ``programs`` are the arguments of each of its processes after the interpreter, by name, ``{port}`` and
    ``{workers}`` for what the order says; the one named `front` takes requests. ``servers`` are needed beside it.
    ``distributions`` are those whose versions are told, ``settings`` says in words how it is set up and why,
    ``lacks`` what it does not promise.
    """

    name: str
    title: str
    distributions: tuple[str, ...]
    programs: Mapping[str, tuple[str, ...]]
    wait_ms: float
    settings: str
    lacks: str
    servers: frozenset[Server] = frozenset()
    env: Mapping[str, str] = field(default_factory=dict)


def _module(name: str, *arguments: str) -> tuple[str, ...]:
    return ("-m", f"{SERVERS}.{name}", *arguments)


def _celery(broker: Server) -> Peer:
    rabbit = broker == "rabbitmq"
    where = "RabbitMQ" if rabbit else "Redis"
    worker = ("-m", "celery", "-A", f"{SERVERS}.celery_app", "worker", "--concurrency", "{workers}")
    return Peer(
        name=f"celery-{broker if rabbit else 'redis'}",
        title=f"Celery with celery-batches ({where})",
        distributions=("celery", "celery-batches", "kombu"),
        programs={
            "worker": (*worker, "--loglevel", "warning", "--without-gossip", "--without-mingle"),
            "front": _module("celery_front"),
        },
        servers=frozenset({"valkey", broker}),
        wait_ms=10,
        settings=(
            f"broker {where}, results in Redis by Celery's backend; `flush_every` 16,"
            " `flush_interval` 10 ms, since the 30 s by default are made for batches of writes; four batches fetched"
            " beforehand; no gossip and no events; a Starlette front sends the task and hears of results by one"
            " subscription, the cheapest way to wait for them"
        ),
        lacks=(
            f"messages lie in {where}, but as set up by default they are acknowledged when they are fetched and sent"
            " without a confirm: a worker that dies loses what it holds, and a message may be lost on its way"
            " (late acknowledgement and confirms would cure that, and cost throughput)"
        ),
    )


PEERS: Final = {
    one.name: one
    for one in (
        Peer(
            name="litserve",
            title="LitServe",
            distributions=("litserve",),
            programs={"front": _module("litserve_app")},
            wait_ms=1,
            settings=(
                "one front; `batch_timeout` 1 ms: with 0, its default, the worker asks for requests without a pause and"
                " takes a core while there is nothing to do; `fast_queue` on, as it recommends for hundreds of"
                " requests a second"
            ),
            lacks=_MEMORY,
        ),
        Peer(
            name="mosec",
            title="mosec",
            distributions=("mosec",),
            programs={
                "front": _module(
                    "mosec_app",
                    *("--address", "127.0.0.1", "--port", "{port}"),
                    *("--log-level", "error", "--timeout", "120000"),
                )
            },
            wait_ms=1,
            settings=(
                "its front in Rust; `max_wait_time` 1 ms, the least there is: its 10 ms by default"
                " would delay every request that is alone; two minutes until it gives a request up, as the others do,"
                " instead of 3 s"
            ),
            lacks=_MEMORY,
        ),
        Peer(
            name="bentoml",
            title="BentoML",
            distributions=("bentoml",),
            programs={
                "front": (
                    "-m",
                    "bentoml",
                    "serve",
                    f"{SERVERS}.bento_app:Classify",
                    "--host",
                    "127.0.0.1",
                    "--port",
                    "{port}",
                )
            },
            wait_ms=60_000,
            settings=(
                "`max_latency_ms` 60,000, its default, within which its adaptive batching learns how"
                " long to wait (a small one makes it refuse requests); access log and metrics off"
            ),
            lacks=_MEMORY,
            env={"BENTOML_DO_NOT_TRACK": "True"},
        ),
        Peer(
            name="ray",
            title="Ray Serve",
            distributions=("ray",),
            programs={"front": _module("ray_app")},
            wait_ms=10,
            settings=(
                "one proxy; `batch_wait_timeout_s` 0.01, its default; `max_ongoing_requests` 256, since"
                " the 5 by default would fill no batch; no dashboard"
            ),
            lacks=_MEMORY,
            env={"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"},
        ),
        _celery("rabbitmq"),
        _celery("valkey"),
    )
}
