"""What the page about capacity says whatever was measured: titles, what to add and when, what cannot be built."
" Pure."""

from typing import Final

from loadgen.capacity.costs import BATCHER, INGRESS, NOTIFIER, RABBITMQ, VALKEY
from loadgen.capacity.sizing import SOCKETS_A_NOTIFIER

TITLES: Final = {
    INGRESS: "ingress",
    VALKEY: "Redis (Valkey)",
    RABBITMQ: "RabbitMQ node",
    BATCHER: "batcher, beside its engine",
    NOTIFIER: "notifier, with the push",
}
BROKERS: Final = {"streams": "Redis Streams", "rabbitmq": "RabbitMQ"}
WHY: Final = {
    VALKEY: "its Redis, whose commands run on one core",
    RABBITMQ: "its queue, one Raft leader, on which the node's whole CPU is laid here",
    NOTIFIER: "hearing of every job, which each notifier does for itself",
}
COMMANDS: Final = """```
make bench ONLY=loadgen ARGS="--part costs --full-size FOLDER --out docs/benchmarks/capacity.json"
.venv/bin/python scripts/capacity.py         # writes this page from that file
```"""
METHOD: Final = (
    "**CPU** is the kernel's count for each process, user and system, over the load, divided by its jobs."
    " Flushes to disk,"
    " writes and script calls serve more jobs at a time when more are under way, so at a higher rate a job costs"
    " less than"
    " here, and these figures are rather too high. A core of another machine may be twice as fast or half as"
    " fast: measure"
    " your own.",
    "Each job is followed by push, over multiplexed WebSockets on which clients subscribe to some jobs at a time. The"
    " **engine** is counted apart: its cost is the model's, read while jobs wait for it.",
    "A **deployment** is what has one Redis and one queue for each model and priority. The model of the costs is a"
    " simulated one.",
)
SHARDING: Final = (
    (
        "ingress",
        "`INFERQ_INGRESSES` processes on one port; on more hosts behind any HTTP balancer. It keeps nothing"
        " between requests",
        "its core is full",
        "yes",
    ),
    (
        "batchers and engines",
        "`INFERQ_BATCHERS` processes, and batchers on other hosts; all read one queue",
        "the engine is full: by far the first, with any real model",
        "yes",
    ),
    (
        "notifiers",
        "processes behind a balancer, by connection. `INFERQ_EVENT_SHARDS` spares a notifier the channels that"
        " it watches"
        " nothing on, which helps those with few watched jobs; one with thousands hears all",
        f"it has {SOCKETS_A_NOTIFIER:,} sockets, or its core is full",
        "yes; `inferq up` starts one, others are started by hand",
    ),
    (
        "queue",
        "several queues for a model, with leaders on several nodes (`INFERQ_ROUTING=hash`)",
        "the leader's core is full",
        "yes, not measured here; equal inputs then go to one batcher",
    ),
    (
        "Redis",
        "by key, over instances: a step touches the record, the index and, with Streams, the queue, which would"
        " have to"
        " share a slot",
        "its one core or its memory is full",
        "no",
    ),
    (
        "deployments",
        "side by side, each with a Redis and a queue of its own; whoever submits chooses one, and asks that one"
        " for the"
        " result",
        "the first bound below is reached",
        "by hand: nothing here routes between them, and no command shows several as one",
    ),
)
GROWS: Final = (
    "Ingresses, batchers, engines and notifiers are added as needed. What cannot be added inside one deployment"
    " bounds it:"
)
TTL: Final = (
    "Results are kept for `INFERQ_RESULT_TTL_S`, an hour by default, and at such rates that is most of the"
    " memory. Clients"
    " that have results pushed need them for a minute or less."
)
FORKS: Final = (
    "Redis forks to rewrite its append-only file, and may need as much memory again while that lasts; and what waits in"
    " RabbitMQ takes room there too. Neither is in these figures."
)
NOT_YET: Final = (
    "**More than one Redis in a deployment.** So a load above the bound needs several deployments, and something"
    " in front"
    " that knows which job went where. There is none here.",
    "**A Redis that survives its host.** A replica that lags has lost what it had not got, and with it the"
    " promise of a"
    " 202; the tables count no replicas. RabbitMQ's quorum queues keep theirs on three nodes or more, each of"
    " which writes"
    " every message; the tables count one node.",
    "**Notifiers that hear less.** Ids are drawn at random, so a connection's jobs lie on all event channels"
    " alike.",
    "**What another machine adds.** Network cards, hosts with two sockets and GPUs were not there to be measured.",
)
