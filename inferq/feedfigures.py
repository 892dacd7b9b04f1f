"""What a feed counts, in plain numbers, and how they become metrics.

To count in a metric takes as long as to route an event. So events are counted in an attribute, and the metrics are
brought up to date now and then.
"""

import time

from inferq.telemetry import Metrics


class FeedFigures:
    """The figures of one feed since it was made; without ``metrics`` they are shown nowhere.

    ``events`` were heard, of jobs that are watched and others; ``links`` stood. Of what was not heard, so much was
    ``found_by_repair`` after a link was lost, and so much ``found_by_rounds``.
    """

    __slots__ = (
        "_before",
        "_metrics",
        "events",
        "found_by_repair",
        "found_by_rounds",
        "links",
        "repaired_at_s",
    )

    def __init__(self, metrics: Metrics | None) -> None:
        self.events = self.links = self.found_by_repair = self.found_by_rounds = 0
        self.repaired_at_s = 0.0
        self._before = (0, 0, 0, 0)
        self._metrics = None if metrics is None else _FeedMetrics(metrics)

    def repaired(self) -> None:
        """Note that everything was read again after the link was lost."""
        self.repaired_at_s = time.time()

    def show(self, *, channels: int, watched_jobs: int) -> None:
        """Bring the metrics up to date."""
        if self._metrics is None:
            return
        now = (self.events, max(0, self.links - 1), self.found_by_repair, self.found_by_rounds)
        for counter, value, before in zip(self._metrics.counters, now, self._before, strict=True):
            counter.inc(value - before)
        self._before = now
        self._metrics.channels.set(channels)
        self._metrics.watched_jobs.set(watched_jobs)
        self._metrics.repaired_at.set(self.repaired_at_s)


class _FeedMetrics:
    def __init__(self, metrics: Metrics) -> None:
        found = metrics.counter("feed_found", "Missed changes that were found by reading records again", "by")
        self.counters = (
            metrics.counter("feed_events", "Events that were heard, of jobs watched here and elsewhere"),
            metrics.counter("feed_resubscriptions", "Subscriptions that stood after an earlier one was lost"),
            found.labels("repair"),
            found.labels("round"),
        )
        self.channels = metrics.gauge("feed_channels", "Channels of events that are subscribed to")
        self.watched_jobs = metrics.gauge("feed_watched_jobs", "Jobs that are watched")
        self.repaired_at = metrics.common_gauge(
            "feed_repaired_timestamp_seconds", "When all watched jobs were last read after a new subscription"
        )
