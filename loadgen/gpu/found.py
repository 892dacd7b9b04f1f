"""What a check of a GPU found, as values; the parts that run in processes of their own send them as JSON. Pure."""

import msgspec


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """A shape on the bare runtime: medians and 99th percentiles of a run, and texts a second one after the other."""

    rows: int
    length: int
    p50_ms: float
    p99_ms: float

    @property
    def texts_per_s(self) -> float:
        """Return the texts a second of such runs."""
        return 1000 * self.rows / self.p50_ms


class Loop(msgspec.Struct, frozen=True, kw_only=True):
    """Sorted windows of texts through the bare runtime, ``runs`` at a time: texts a second, texts a batch."""

    max_rows: int
    runs: int
    texts_per_s: float
    mean_batch: float


class Bare(msgspec.Struct, frozen=True, kw_only=True):
    """The bare runtime with one file: ``device`` is what the session reports, ``finite`` whether its answers were."""

    precision: str
    device: str
    load_s: float
    finite: bool
    cells: list[Cell]
    loops: list[Loop]

    def best(self, max_rows: int) -> float:
        """Return the texts a second of the best loop with batches of so many rows, 0 where none ran."""
        return max((loop.texts_per_s for loop in self.loops if loop.max_rows == max_rows), default=0.0)


class Piped(msgspec.Struct, frozen=True, kw_only=True):
    """The pipeline under more load than it does: jobs done a second, rows a batch, useful over padded tokens.

    ``waiting`` is the fewest jobs seen to wait, ``short`` how many batches had no memory.
    """

    precision: str
    max_rows: int
    batchers: int
    ingresses: int
    feeders: int
    device: str
    done_per_s: float
    fed_per_s: float
    mean_batch: float
    useful_share: float
    waiting: int
    short: float


class Light(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that came at a steady rate: how many, and from acceptance to the stored result."""

    precision: str
    rate: float
    jobs: int
    p50_ms: float
    p99_ms: float


class Fallback(msgspec.Struct, frozen=True, kw_only=True):
    """Without a GPU in sight: what `auto` takes and says, and what `cuda` answers, with its exit code."""

    device: str
    reason: str
    refusal: str
    refusal_code: int


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Batches that the device has no memory for: jobs and how they ended, and what became of engine and bound."""

    way: str
    jobs: int
    done: int
    short: float
    splits: float
    restarts: int
    most_tokens: float
    set_tokens: int


class Found(msgspec.Struct, kw_only=True):
    """All of it; ``skipped`` are the parts that there was no time for, ``failed`` those that failed, and why."""

    device: str
    gpu: str = ""
    seconds: float = 0.0
    bare: list[Bare] = []
    piped: list[Piped] = []
    light: list[Light] = []
    fallback: Fallback | None = None
    memory: list[Memory] = []
    skipped: list[str] = []
    failed: dict[str, str] = {}
