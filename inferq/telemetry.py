"""Logs and metrics of every process.

Logs go to standard error, as JSON lines unless a person reads them. Nothing that a caller sent is ever logged: ids and
counts are, texts and keys are not. Should something of it come with an error all the same, it can neither forge a line
nor speak to a terminal: control characters are written as escapes.

Metrics carry the prefix `inferq_` and base units. A process registers those that it feeds; the names are the
contract's.
"""

import json
import logging
import os
import re
import sys
from pathlib import Path
from typing import Any, Final

import structlog
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    values,
)
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from inferq.errors import OperatorError
from inferq.summing import SUMMED_IN

METRICS_TYPE: Final = CONTENT_TYPE_LATEST

# From half a millisecond, a fast submit, to a minute, a long queue.
_SECONDS: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip  # a scale reads in one line
_SIZES: Final = (1, 2, 4, 8, 12, 16, 24, 32, 64, 128, 256)

# C0, DEL, C1, separators of lines, and what turns the direction of writing: all that a terminal may act on.
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# What structlog gives several lines.
_BLOCKS: Final = ("exception", "stack")
# How aiormq's lines begin that come, as errors, with every failed try and every connection that the broker closes.
_OF_CONNECTIONS: Final = ("error when creating transport", "Unexpected connection close from remote")


def configure_logs(*, service: str, level: str, style: str) -> None:
    """Set up structlog and the standard library's loggers; ``style`` is auto, console or json."""
    terminal = sys.stderr.isatty()
    console = style == "console" or (style == "auto" and terminal)
    rendering: list[structlog.types.Processor] = (
        [
            _escape_controls,
            structlog.dev.ConsoleRenderer(
                pad_event_to=28, colors=terminal, exception_formatter=structlog.dev.plain_traceback
            ),
        ]
        if console
        else [structlog.processors.JSONRenderer(serializer=_json)]
    )
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _named(service),
    ]
    structlog.configure(
        processors=[
            *shared,
            structlog.processors.format_exc_info,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                *rendering,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Libraries tell of every retry that we tell of ourselves, and some of message bodies at debug level.
    for noisy in (
        "aio_pika",
        "aiormq",
        "websockets",
        "uvicorn",
        "asyncio",
        "httpcore",
        "httpx",
        "huggingface_hub",
    ):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    logging.getLogger("aiormq.connection").addFilter(_untold_elsewhere)


def _untold_elsewhere(record: logging.LogRecord) -> bool:
    """Say whether a line of the AMQP library tells more than that a connection failed, which we tell ourselves."""
    return not str(record.msg).startswith(_OF_CONNECTIONS)


def _named(service: str) -> structlog.types.Processor:
    def add(
        _: structlog.types.WrappedLogger, __: str, event: structlog.types.EventDict
    ) -> structlog.types.EventDict:
        event["service"] = service
        return event

    return add


def _escape_controls(
    _: structlog.types.WrappedLogger, __: str, event: structlog.types.EventDict
) -> structlog.types.EventDict:
    """Write control characters in every name and value as escapes; tracebacks keep their lines, indented."""
    return {
        _escaped(str(name)): _block(value) if name in _BLOCKS else _value(value)
        for name, value in event.items()
    }


def _value(value: object) -> object:
    if isinstance(value, str):
        return _escaped(value)
    shown = repr(value)
    return _escaped(shown) if _CONTROL.search(shown) else value


def _block(value: object) -> str:
    return "\n".join("  " + _escaped(line) for line in str(value).split("\n"))


def _escaped(text: str) -> str:
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _json(event: Any, **options: Any) -> str:
    # The one control character that JSON leaves as it is.
    return json.dumps(event, **options).replace("\x7f", "\\u007f")


class Metrics:
    """The metrics of one process, in a registry of its own.

    Where `PROMETHEUS_MULTIPROC_DIR` names a folder, values live in files there, and `render` answers for all processes
    that share it. ``identity``, which no other living process may have, is then carried on from life to life: so
    neither do counts go back when a process dies, nor do files pile up. Without one it is the process id.

    Raises:
        OperatorError: that folder is not there.
    """

    def __init__(self, *, identity: str = "") -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        folder = os.environ.get(SUMMED_IN, "")
        self._exposed = _summed(folder, identity) if folder else self.registry
        self.jobs = self.counter("jobs", "Jobs that reached a status here", "status")
        self.breaker_state = self.worst_gauge(
            "breaker_state", "State of a circuit breaker: 0 closed, 1 half-open, 2 open", "name"
        )
        self.breaker_opened = self.counter("breaker_opened", "How often a circuit breaker opened", "name")
        self.breaker_outcomes = self.counter(
            "breaker_outcomes", "What came back through a circuit breaker, and counted", "name", "outcome"
        )

    def counter(self, name: str, text: str, *labels: str) -> Counter:
        """Make a counter; Prometheus adds `_total`."""
        return Counter(f"inferq_{name}", text, labels, registry=self.registry)

    def gauge(self, name: str, text: str, *labels: str) -> Gauge:
        """Make a gauge of what this process has; those of several processes are summed."""
        return Gauge(f"inferq_{name}", text, labels, registry=self.registry, multiprocess_mode="livesum")

    def common_gauge(self, name: str, text: str, *labels: str) -> Gauge:
        """Make a gauge of the whole deployment, only ever set; of what several processes set, the last counts."""
        return Gauge(f"inferq_{name}", text, labels, registry=self.registry, multiprocess_mode="mostrecent")

    def worst_gauge(self, name: str, text: str, *labels: str) -> Gauge:
        """Make a gauge that is the worse the higher it is; of what several living processes set, the highest counts."""
        return Gauge(f"inferq_{name}", text, labels, registry=self.registry, multiprocess_mode="livemax")

    def seconds(self, name: str, text: str, *labels: str) -> Histogram:
        """Make a histogram of seconds."""
        return Histogram(f"inferq_{name}_seconds", text, labels, registry=self.registry, buckets=_SECONDS)

    def sizes(self, name: str, text: str, *labels: str) -> Histogram:
        """Make a histogram of counts."""
        return Histogram(f"inferq_{name}", text, labels, registry=self.registry, buckets=_SIZES)

    def render(self) -> bytes:
        """Return the exposition that `/metrics` answers with."""
        return generate_latest(self._exposed)


def _summed(folder: str, identity: str) -> CollectorRegistry:
    """Return a registry that sums what the processes that share ``folder`` have written there."""
    if not Path(folder).is_dir():
        raise OperatorError(
            f"{SUMMED_IN}={folder!r} is no folder: make it, empty, before the first start, or unset it"
        )
    if identity:
        values.ValueClass = values.MultiProcessValue(lambda: identity)
        # What the last life had at its end, such as open connections, went with it.
        mark_process_dead(identity, folder)
    registry = CollectorRegistry()
    MultiProcessCollector(registry, folder)
    return registry
