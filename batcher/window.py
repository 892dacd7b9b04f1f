"""The jobs that a batcher holds and has not started. Pure.

Interactive jobs come before bulk ones, and either kind in the order of arrival. A batch is a run of that order, cut at
`max_batch_size` jobs or where the next job would make its padded tokens (rows times the longest row) more than
`max_batch_tokens`. A job that alone is longer than that runs alone.

A suspect is a job that once crashed or hung the engine alone. It waits apart, always runs alone, and gets its turn
after `PATIENCE` ordinary batches, or as soon as nothing else waits: neighbours do not pay for it, and it does not wait
for ever.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from inferq.jobs import Priority
from inferq.messages import Delivery
from inferq.steps import Origin

PATIENCE = 4


@dataclass(kw_only=True, eq=False)
class Item:
    """A job in a batcher's hands.

    ``arrived_s`` is on the loop's clock, ``arrived_ms`` on the wall's. ``deliveries`` are the messages to settle when
    the job has ended: more than one when the broker delivered it again meanwhile.
    """

    origin: Origin
    deliveries: list[Delivery]
    ids: Sequence[int]
    truncated: bool
    arrived_s: float
    arrived_ms: float
    tokenize_ms: float
    charges: int = 0
    suspect: bool = False

    @property
    def job_id(self) -> str:
        """The job's id."""
        return self.origin.job.job_id


@dataclass(kw_only=True)
class Window:
    """Holds items by job id and composes batches of them."""

    max_batch_size: int
    max_batch_tokens: int
    _lanes: dict[Priority, dict[str, Item]] = field(
        default_factory=lambda: {Priority.INTERACTIVE: {}, Priority.BULK: {}}
    )
    _suspects: dict[str, Item] = field(default_factory=dict)
    _since_suspect: int = 0

    def __len__(self) -> int:
        """Count the jobs that wait, suspects not included."""
        return sum(map(len, self._lanes.values()))

    @property
    def interactive(self) -> int:
        """Count the interactive jobs that wait."""
        return len(self._lanes[Priority.INTERACTIVE])

    @property
    def suspects(self) -> int:
        """Count the suspects."""
        return len(self._suspects)

    @property
    def items(self) -> list[Item]:
        """Everything that waits, suspects last."""
        return [*self._ordered(), *self._suspects.values()]

    @property
    def oldest_at_s(self) -> float:
        """When the oldest job arrived; 0 when none waits."""
        return min((item.arrived_s for lane in self._lanes.values() for item in lane.values()), default=0.0)

    @property
    def tokens_full(self) -> bool:
        """Whether the next batch is cut by its tokens, with jobs left over."""
        return self._cut() < min(len(self), self.max_batch_size)

    def add(self, item: Item) -> None:
        """Take an item in."""
        if item.suspect:
            self._suspects[item.job_id] = item
        else:
            self._lanes[item.origin.job.priority][item.job_id] = item

    def get(self, job_id: str) -> Item | None:
        """Return the item of a job, if it waits here."""
        for lane in (*self._lanes.values(), self._suspects):
            if job_id in lane:
                return lane[job_id]
        return None

    def remove(self, item: Item) -> None:
        """Let an item go, if it waits here."""
        for lane in (*self._lanes.values(), self._suspects):
            lane.pop(item.job_id, None)

    def take_suspect(self) -> Item | None:
        """Take the suspect whose turn it is, if it is one's."""
        if not self._suspects or (len(self) and self._since_suspect < PATIENCE):
            return None
        self._since_suspect = 0
        return self._suspects.pop(next(iter(self._suspects)))

    def take(self) -> list[Item]:
        """Take the next batch."""
        batch = self._ordered()[: self._cut()]
        for item in batch:
            self.remove(item)
        self._since_suspect += 1
        return batch

    def _ordered(self) -> list[Item]:
        return [*self._lanes[Priority.INTERACTIVE].values(), *self._lanes[Priority.BULK].values()]

    def _cut(self) -> int:
        longest = 0
        for rows, item in enumerate(self._ordered()[: self.max_batch_size], start=1):
            longest = max(longest, len(item.ids))
            if rows > 1 and rows * longest > self.max_batch_tokens:
                return rows - 1
        return min(len(self), self.max_batch_size)
