"""What the connections of one server share: limits, refusals, counters, and those that came beyond the limit.

A connection beyond the limit cannot be told from a probe until its request is read. So a few are read: a probe is
answered, any other request is refused, and in a rush the oldest that is still silent makes room for the newest. A
prober sends at once, so it is heard even while silent connections hold every other place.
"""

from typing import Final, Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from inferq.httplimits import HttpLimits
from inferq.refusals import CROWDED, body_slow, head_slow, head_too_large
from inferq.telemetry import Metrics

PROBES: Final = frozenset({"/healthz", "/readyz", "/metrics"})


class Extra(Protocol):
    """A connection beyond the limit."""

    @property
    def silent(self) -> bool:
        """Whether it has not sent a whole head yet."""
        ...

    def turn_away(self) -> None:
        """Refuse it at once."""
        ...


class Guard:
    """Counts for one server, and decides who is read beyond the limit."""

    def __init__(self, limits: HttpLimits, metrics: Metrics) -> None:
        self.limits = limits
        self.head_too_large = head_too_large(limits.head_bytes)
        self.head_slow = head_slow(limits.head_s)
        self.body_slow = body_slow(limits.body_s)
        self.open = metrics.gauge("http_connections", "Open HTTP connections")
        self._refused = metrics.counter(
            "http_refused", "Requests and connections that the HTTP server ended by itself", "reason"
        )
        # In the order in which they came.
        self._crowd: dict[Extra, None] = {}

    def count(self, reason: str) -> None:
        """Count a refusal."""
        self._refused.labels(reason).inc()

    def crowd_in(self, extra: Extra) -> bool:
        """Take a connection beyond the limit, if need be in place of the oldest silent one; or say no."""
        if len(self._crowd) >= self.limits.crowd_connections:
            oldest = next((other for other in self._crowd if other.silent), None)
            if oldest is None:
                return False
            oldest.turn_away()
        self._crowd[extra] = None
        return True

    def forget(self, extra: Extra) -> None:
        """Forget a connection, which has ended or is about to; one that never was beyond the limit too."""
        self._crowd.pop(extra, None)

    def probes_alone(self, app: ASGIApp) -> ASGIApp:
        """Wrap an application for a connection beyond the limit: probes are answered, and every answer is its last."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            async def last(message: Message) -> None:
                if message["type"] == "http.response.start":
                    message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
                await send(message)

            if scope["path"] in PROBES:
                await app(scope, receive, last)
            else:
                self.count(CROWDED.reason)
                await CROWDED.answer(scope, receive, send)

        return answer
