"""A report in words, for a terminal. Pure.

1. What never came is longer than all that came: percentiles are of both, since those of the survivors alone look best
   where most is lost. A refusal is an answer, and is counted among the errors alone.
2. What makes figures tell of something else than the pipeline comes last, so that it is not missed.
"""

import math
from collections.abc import Mapping
from typing import Final

from loadgen.generator.report import Latency, Report
from loadgen.latencies import Latencies

SHARES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1.0}


def words(report: Report) -> list[str]:
    """Return the lines that say what a run saw."""
    plan = report.plan
    follows = plan.follow != "nothing"
    lines = [
        f"{report.offered} jobs in {report.seconds:g} s ({plan.schedule.kind}), {report.accepted} accepted"
        + (f", {_counts(report.statuses) or 'none ended'}" if follows else ""),
        f"errors: {_counts(report.errors) or 'none'}",
    ]
    if follows:
        lines.append(
            f"goodput: {100 * report.goodput:.2f} % done within {plan.budget_ms:g} ms,"
            f" {report.done / report.seconds:.1f} jobs/s done; {report.cached} cached"
        )
    lines.append(latency_words("submit, due to 202", report.submit, report.never_accepted))
    if follows:
        lines.append(latency_words("stored, accepted to stored", report.stored, report.never_stored))
    if plan.follow == "push":
        lines.append(latency_words("pushed, due to frame", report.pushed, report.never_pushed))
    batches = report.batches
    if batches.mean is not None and batches.padding_share is not None:
        lines.append(
            f"batches: {batches.count}, {batches.mean:.2f} jobs on average, {100 * batches.padding_share:.1f} %"
            f" padding, closed by {_counts(batches.reasons)}"
        )
    if follows:
        lines.append(f"last result {report.last_after_s:.2f} s after the last send")
    lines.append(latency_words("generator's own lag", report.lag))
    shares = {"generator": report.own_cpu_s, **report.cpu_s, "others": report.others_cpu_s}
    lines.append(
        "of a core: "
        + ", ".join(f"{name} {100 * used / report.seconds:.0f} %" for name, used in shares.items())
    )
    if report.cached and not plan.inputs.distinct:
        # Repeating texts are asked for; these were sent by an earlier run.
        lines.append(
            f"WARNING: {report.cached} of {report.offered} came from a cache, so these are its times:"
            " give another --seed"
        )
    return [*lines, *(f"INVALID: {why}" for why in report.invalid)]


def latency_words(name: str, seen: Latency, never: int = 0) -> str:
    """Return a latency's percentiles on one line; ``never`` is how many that are not in it never came."""
    total = seen.count + never
    if not total:
        return f"{name}: none"
    kept = Latencies.decode(seen.encoded)
    found = {label: kept.percentile_ms(share, longer=never) for label, share in SHARES.items()}
    if not never:
        return f"{name}: " + ", ".join(f"{label} {value:.2f}" for label, value in found.items()) + " ms"
    parts = (f"{label} {_or_never(value)}" for label, value in found.items())
    return f"{name}: " + ", ".join(parts) + f" ({never} of {total} never came)"


def _or_never(value_ms: float) -> str:
    return "never" if math.isinf(value_ms) else f"{value_ms:.2f} ms"


def _counts(counted: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counted.items())
