"""How an engine spreads its threads over batches. Pure.

A layout is `runs` x `threads`: so many batches at a time (lanes), each on so many threads. Several runs of one thread
often do more per second than one run of all threads, which waits at every operator for its slowest thread; but a batch
alone is faster on all threads. So a layout of several runs has, where memory allows, one more session: the *wide* one
of all threads, for a batch that has the engine to itself.

Which layout does most is measured on the machine at hand (`batcher.warmup`). On a GPU one run takes the whole device,
and a simulated model needs no threads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from batcher.composition import cut
from batcher.cost import Cost
from inferq.errors import InferqError

# A run on several threads waits at each operator for the one that something else holds up. The measurement sees an idle
# machine, in service there is something else; so fewer runs must win clearly. Two cores that the rest of a pipeline
# shared did 32 texts/s of a full-size model as 1 x 2 and 38 as 2 x 1, with up to a fifth between them when idle.
TIE: Final = 0.2
# The lengths of half a window of movie snippets.
USUAL: Final = (
    7, 9, 11, 12, 13, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25,
    26, 27, 28, 29, 31, 32, 33, 35, 37, 39, 41, 44, 47, 51, 56, 63,
)  # fmt: skip  # a row of numbers


class LayoutRefused(InferqError):
    """The machine has no room for this layout; the one in force stays."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """``runs`` batches at a time on ``threads`` each; ``wide_threads`` 0: no wide session.

    ``spin`` lets the threads of the wide session spin between operators; those of lanes never do.
    """

    runs: int
    threads: int
    wide_threads: int = 0
    spin: bool = False

    @property
    def text(self) -> str:
        """For people: `2 x 1, wide 2 spinning`."""
        wide = f", wide {self.wide_threads}{' spinning' if self.spin else ''}" if self.wide_threads else ""
        return f"{self.runs} x {self.threads}{wide}"


def candidates(threads: int, sessions: int) -> list[Layout]:
    """Return the layouts of ``threads`` in all that are worth measuring, most runs first, none with a wide session.

    ``sessions`` is how many runs the operator wants, 0 to leave it to the measurement.
    """
    if sessions:
        return [Layout(runs=sessions, threads=max(1, threads // sessions))]
    runs = {1, threads}
    power = 2
    while threads >= 4 and power < threads:
        runs.add(power)
        power *= 2
    return [Layout(runs=count, threads=threads // count) for count in sorted(runs, reverse=True)]


def widened(layout: Layout, threads: int) -> Layout:
    """Return the layout with a wide session of ``threads``, where that is something else than its lanes."""
    apart = layout.runs > 1 and threads > layout.threads
    return replace(layout, wide_threads=threads) if apart else layout


def unmeasured(sessions: int) -> Layout:
    """Return the layout for a GPU and for a simulated model: one run, or as many as the operator wants."""
    return Layout(runs=max(1, sessions), threads=1)


def texts_per_s(
    cost: Cost, runs: int, *, max_length: int, max_rows: int, max_tokens: int, lengths: Sequence[int] = USUAL
) -> float:
    """Predict the texts per second of so many runs at a time on a window of usual lengths, composed as it would be."""
    ordered = sorted(min(length, max_length) for length in lengths)
    starts = cut(ordered, cost, max_rows, max_tokens)
    total_ms, end = 0.0, len(ordered)
    while end:
        total_ms += cost.batch_ms(end - starts[end], ordered[end - 1])
        end = starts[end]
    return 1000 * runs * len(ordered) / total_ms


def choose(measured: Mapping[Layout, float]) -> Layout:
    """Return the layout of the most texts per second; of those that are nearly as good, the one of the most runs.

    Raises:
        ValueError: nothing was measured.
    """
    if not measured:
        raise ValueError("no layout was measured")
    enough = max(measured.values()) * (1 - TIE)
    return max((layout for layout, rate in measured.items() if rate >= enough), key=lambda one: one.runs)
