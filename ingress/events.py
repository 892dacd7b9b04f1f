"""`GET /v1/jobs/{job_id}/events`: what becomes of a job, as Server-Sent Events; plain ASGI.

Why our own: sse-starlette (3.7) replaces a method of uvicorn's server when it is imported and learns of the end by
looking once in half a second for the object behind the signal handler of SIGTERM, which is none of uvicorn's here; a
flag of its class, that nothing resets, is the other way. It costs four tasks, a task group and a lock for each stream,
and decodes and splits every frame. What it gives for that, a bound on a client that does not read, heartbeats and
notice of a client that leaves, the HTTP server's sweep, one timer and one task do.

A client that does not read is kept two records (`inferq.untold`) beside what its buffers hold, and is cut off by the
sweep once these have been full for `unread_s`.
"""

import random
from typing import Final

from starlette.types import Receive, Scope, Send

from inferq.circuit import Circuit
from inferq.errors import JobNotFound
from inferq.feed import Feed
from inferq.follower import UNKNOWN, Follower
from inferq.frames import SNAPSHOT
from inferq.httplimits import HttpLimits
from inferq.jobs import FINAL
from inferq.keyring import KeyRing, the_one
from inferq.messages import Event
from inferq.telemetry import Metrics
from ingress.eventstream import HEADERS, HEARTBEAT, gone, last_seen, message, retry
from ingress.followers import Followers, NoPlace, most_followers
from ingress.jobs import is_job_id

HEARTBEAT_S: Final = 15.0

_START: Final = {"type": "http.response.start", "status": 200, "headers": HEADERS}
# An EventSource that gets it does not come back.
_START_NOTHING: Final = {"type": "http.response.start", "status": 204, "headers": HEADERS[1:2]}


class Events:
    """Serves streams of ``feed``'s jobs, ``most`` at a time, unless the ``circuit`` to Redis is open."""

    def __init__(
        self, feed: Feed, keys: KeyRing, metrics: Metrics, circuit: Circuit, *, most: int | None = None
    ) -> None:
        self._keys, self._circuit = keys, circuit
        streams = metrics.gauge("event_streams", "Open streams of Server-Sent Events")
        most = most_followers(HttpLimits()) if most is None else most
        self._followers = Followers(feed, most=most, count=streams.set)
        self._ended = metrics.counter(
            "event_streams_ended", "Streams of Server-Sent Events that ended, by reason", "reason"
        )

    def keys_changed(self) -> None:
        """End the streams of those whose key is known no more; they come back, and are told so."""
        self._followers.send_away(self._keys.stands)

    def close(self) -> None:
        """End all streams, whose clients will come back: the process stops."""
        self._followers.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; raises `HttpError` before anything is sent."""
        caller = self._keys.caller(the_one(scope["headers"]))
        job_id = scope["path_params"]["job_id"]
        if not is_job_id(job_id):
            raise JobNotFound(UNKNOWN)
        self._circuit.require()
        try:
            async with self._followers.following(job_id, receive) as follower:
                event = await follower.begin(caller)
                seen = last_seen(scope["headers"]) == event.seq
                nothing = seen and event.status in FINAL
                await send(_START_NOTHING if nothing else _START)
                if nothing or scope["method"] == "HEAD":
                    await _send(send, b"", more=False)
                else:
                    await self._stream(follower, job_id, None if seen else event, send)
        except NoPlace:
            self._ended.labels("refused").inc()
            raise

    async def _stream(self, follower: Follower, job_id: str, event: Event | None, send: Send) -> None:
        reason = "left"
        try:
            reason = await _stream(follower, job_id, event, send)
        finally:
            self._ended.labels(reason).inc()


async def _stream(follower: Follower, job_id: str, event: Event | None, send: Send) -> str:
    """Send what becomes of a job; return why it ended."""
    opening = retry(random.random())
    final = event is not None and event.status in FINAL
    await _send(send, opening + (b"\n" if event is None else message(event, SNAPSHOT)), more=not final)
    while not final:
        if (event := follower.take()) is not None:
            final = event.status in FINAL
            await _send(send, message(event), more=not final)
        elif follower.left:
            return "left"
        elif follower.gone:
            await _send(send, gone(UNKNOWN, job_id), more=False)
            return "gone"
        elif follower.stopped:
            await _send(send, b"", more=False)
            return "stopped"
        elif not await follower.news(HEARTBEAT_S):
            await _send(send, HEARTBEAT, more=True)
    return "ended"


async def _send(send: Send, body: bytes, *, more: bool) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})
