"""Every name that inferq uses inside Redis and the broker.

One place, so that two deployments can share a server (`namespace` comes before each name) and so that a queue
per model, priority and shard is a matter of naming. The default model's interactive queue has the plain name;
a part is appended only where it differs from the default.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from inferq.cachekey import job_digest, shard_of
from inferq.jobs import Job, Priority

EXCHANGE = "inference"
DEAD_EXCHANGE = "inference.dead"
QUEUE = "inference.requests"
GROUP = "batchers"

# The broker itself condemns nobody: attempts are counted in the record. This is only a backstop against a
# message that no batcher ever settles.
DELIVERY_LIMIT = 50
# Reading a dead letter and putting it back counts as a delivery; RabbitMQ 4 would drop it after 20.
DEAD_DELIVERY_LIMIT = 1_000_000
# Beyond this many dead letters the oldest go; their records keep the error.
DEAD_LIMIT = 100_000
# How much of an id's end says which channel tells of it; ids are random there.
HASHED_BYTES = 8


@dataclass(frozen=True, kw_only=True)
class Names:
    """All names of one deployment.

    ``default_model`` is the model whose queues carry no model part; ``shards`` is the number of queues that
    each model and priority is spread over, ``event_shards`` that of channels which all events are spread over.
    """

    namespace: str = ""
    default_model: str = "builtin"
    shards: int = 1
    event_shards: int = 1

    def job(self, job_id: str) -> str:
        """Key of a job's record."""
        return f"{self.namespace}job:{job_id}"

    @property
    def before_id(self) -> int:
        """How many bytes precede the id in a record's key."""
        return len(self.job("").encode())

    def cache(self, digest: str) -> str:
        """Key of a finished result that equal jobs are answered with."""
        return f"{self.namespace}cache:{digest}"

    def quota_jobs(self, name: str) -> str:
        """Sorted set of an API key's unfinished jobs, by the time (ms) when they surely have ended."""
        return f"{self.namespace}quota:{name}:jobs"

    def quota_rate(self, name: str) -> str:
        """Key of how much of its rate an API key has used."""
        return f"{self.namespace}quota:{name}:rate"

    def idem(self, digest: str) -> str:
        """Key of the first answer to an idempotency key, or of the claim to make it."""
        return f"{self.namespace}idem:{digest}"

    @property
    def announced(self) -> str:
        """Where the scripts announce changes: the first channel, and behind `#` how many there are, if several."""
        first = self.event_channel(0)
        return first if self.event_shards == 1 else f"{first}#{self.event_shards}"

    def event_channel(self, shard: int) -> str:
        """Pub/sub channel that announces every change of the records in one shard."""
        name = f"{self.namespace}job-events"
        return f"{name}.{shard}" if shard else name

    def event_shard(self, job_id: str) -> int:
        """Shard whose channel tells of a job: of its id's last bytes, as the scripts reckon it."""
        if self.event_shards == 1:
            return 0
        total = 0
        for byte in job_id.encode()[-HASHED_BYTES:]:
            total = (total * 31 + byte) % 2**32
        return total % self.event_shards

    @property
    def open_jobs(self) -> str:
        """Sorted set of jobs that have not ended, by the time when the sweeper next looks at them."""
        return f"{self.namespace}jobs-open"

    @property
    def webhooks(self) -> str:
        """Pub/sub channel that tells of webhooks which are due at once."""
        return f"{self.namespace}webhooks"

    @property
    def webhooks_due(self) -> str:
        """Sorted set of the jobs whose webhooks are not delivered, by when these are due (ms)."""
        return f"{self.namespace}webhooks-due"

    @property
    def webhooks_failed(self) -> str:
        """Sorted set of the jobs whose webhooks were given up, by when (ms)."""
        return f"{self.namespace}webhooks-failed"

    @property
    def webhook_owners(self) -> str:
        """Sorted set of whose webhooks wait, by when the first of these is due (ms)."""
        return f"{self.namespace}webhooks-owners"

    @property
    def webhooks_owned(self) -> str:
        """Hash of how many webhooks of each owner are not delivered."""
        return f"{self.namespace}webhooks-owned"

    def webhook(self, job_id: str) -> str:
        """Key of a webhook that is not delivered."""
        return f"{self.namespace}webhook:{job_id}"

    @property
    def batchers(self) -> str:
        """Hash of what each living batcher says of itself."""
        return f"{self.namespace}batchers"

    @property
    def ingresses(self) -> str:
        """Hash of what each living ingress says of itself."""
        return f"{self.namespace}ingresses"

    @property
    def sweeper(self) -> str:
        """Key that the one sweeping process holds."""
        return f"{self.namespace}sweeper"

    def lease(self, consumer: str) -> str:
        """Key that a living consumer of the streams renews."""
        return f"{self.namespace}lease:{consumer}"

    def shard_members(self, model: str) -> str:
        """Sorted set of the batchers that share a model's shards, by when their leases end (ms)."""
        return f"{self.namespace}shard-members{self._part(model)}"

    def shard_owners(self, model: str) -> str:
        """Hash of whose each of a model's shards is."""
        return f"{self.namespace}shard-owners{self._part(model)}"

    def shard_newcomers(self, model: str) -> str:
        """Sorted set of those batchers who came just now, by when (ms)."""
        return f"{self.namespace}shard-newcomers{self._part(model)}"

    @property
    def sharding(self) -> str:
        """Key of how many shards this deployment spreads its jobs over."""
        return f"{self.namespace}sharding"

    @property
    def queued_bell(self) -> str:
        """Pub/sub channel that names the streams which have got entries."""
        return f"{self.namespace}queued"

    def waiting_count(self, model: str) -> str:
        """Hash of how many entries wait in all streams of a model, and when they were counted (ms)."""
        return f"{self.namespace}waiting{self._part(model)}"

    @property
    def exchange(self) -> str:
        """Direct exchange that jobs are published to; the routing key is the queue's name."""
        return self.namespace + EXCHANGE

    @property
    def dead_exchange(self) -> str:
        """Direct exchange of dead letters."""
        return self.namespace + DEAD_EXCHANGE

    @property
    def dead_queue(self) -> str:
        """Queue or stream where dead letters wait for a person."""
        return f"{self.namespace}{QUEUE}.dead"

    @property
    def dropped_queue(self) -> str:
        """Queue of what the broker itself dead-lettered; it is read at once and its records finished."""
        return f"{self.namespace}{QUEUE}.dropped"

    def queue(self, model: str, priority: Priority = Priority.INTERACTIVE, shard: int = 0) -> str:
        """Name of one queue."""
        name = self._base(model, priority)
        return f"{name}.{shard}" if self.shards > 1 else name

    def queue_of(self, job: Job) -> str:
        """Name the queue that a job belongs in: its input says which shard."""
        return self.queue(job.model, job.priority, self.shard(job))

    def shard(self, job: Job) -> int:
        """Say which shard a job belongs in: equal inputs meet."""
        return shard_of(job_digest(job), self.shards) if self.shards > 1 else 0

    def shard_queues(self, model: str, shard: int) -> tuple[str, ...]:
        """Name the queues of one shard, interactive before bulk."""
        return tuple(self.queue(model, priority, shard) for priority in Priority)

    def shard_bases(self, model: str) -> tuple[str, ...]:
        """Name what a model's queues begin with, before a dot and the shard, interactive before bulk."""
        return tuple(self._base(model, priority) for priority in (Priority.INTERACTIVE, Priority.BULK))

    def queues(self, *models: str) -> tuple[str, ...]:
        """Name every queue of the models (of the default one when none is named), interactive before bulk."""
        return tuple(
            self.queue(model, priority, shard)
            for priority in (Priority.INTERACTIVE, Priority.BULK)
            for model in models or (self.default_model,)
            for shard in range(self.shards)
        )

    def base_of(self, queue: str) -> str:
        """Name what all queues of a queue's model begin with."""
        return (queue.rpartition(".")[0] if self.shards > 1 else queue).removesuffix(".bulk")

    def _base(self, model: str, priority: Priority) -> str:
        name = f"{self.namespace}{QUEUE}{self._part(model)}"
        return name + ".bulk" if priority is Priority.BULK else name

    def _part(self, model: str) -> str:
        return "" if model == self.default_model else f".{model}"

    def queue_arguments(self, limit_jobs: int) -> Mapping[str, str | int]:
        """Arguments of a work queue on RabbitMQ."""
        return {
            "x-queue-type": "quorum",
            "x-max-length": limit_jobs,
            "x-overflow": "reject-publish",
            "x-delivery-limit": DELIVERY_LIMIT,
            "x-dead-letter-exchange": self.dead_exchange,
            "x-dead-letter-routing-key": self.dropped_queue,
            "x-dead-letter-strategy": "at-least-once",
        }

    @property
    def dead_arguments(self) -> Mapping[str, str | int]:
        """Arguments of the queues that keep dead letters on RabbitMQ."""
        return {
            "x-queue-type": "quorum",
            "x-max-length": DEAD_LIMIT,
            "x-overflow": "drop-head",
            "x-delivery-limit": DEAD_DELIVERY_LIMIT,
        }
