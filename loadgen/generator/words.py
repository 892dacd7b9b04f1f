"""A report in words, for a terminal. Pure."""

from collections.abc import Mapping

from loadgen.generator.report import Latency, Report


def words(report: Report) -> list[str]:
    """Return the lines that say what a run saw; what makes it invalid comes last, so that it is not missed."""
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
    lines.append(latency_words("submit, due to 202", report.submit))
    if follows:
        lines.append(latency_words("stored, accepted to stored", report.stored))
    if plan.follow == "push":
        lines.append(latency_words("pushed, due to frame", report.pushed))
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
    return [*lines, *(f"INVALID: {why}" for why in report.invalid)]


def latency_words(name: str, seen: Latency) -> str:
    """Return a latency's percentiles on one line."""
    if not seen.count:
        return f"{name}: none"
    parts = {
        "p50": seen.p50_ms,
        "p90": seen.p90_ms,
        "p99": seen.p99_ms,
        "p99.9": seen.p999_ms,
        "max": seen.max_ms,
    }
    return f"{name}: " + ", ".join(f"{label} {value:.2f}" for label, value in parts.items()) + " ms"


def _counts(counted: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counted.items())
