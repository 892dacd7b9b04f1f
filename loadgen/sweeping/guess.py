"""About what a pipeline can do, by the cost that its batcher fitted at its warm-up."""

from statistics import fmean

from batcher.cost import capacity
from inferq.snippets import snippets
from loadgen.fitted import read_fitted
from loadgen.sweeping.target import Target
from loadgen.tokens import tokens_of


def guessed(target: Target) -> float | None:
    """Return jobs/s for texts of the mean length; None where nothing is known of the cost.

    Several batchers are taken to do as many times as much as one, which they do where they share no core.
    """
    settings = target.settings
    if settings is None:
        return None
    try:
        fitted = read_fitted(target.warm)
    except ValueError:
        return None
    one = capacity(
        fitted.lane,
        lanes=fitted.lanes,
        length=max(1, round(fmean(tokens_of(settings.model, snippets())))),
        most_rows=settings.max_batch_size,
        most_tokens=settings.max_batch_tokens,
    )
    return one * settings.batchers
