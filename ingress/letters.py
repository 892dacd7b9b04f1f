"""What the page of operations shows of dead letters, and does with them.

They are everybody's, so only an admin's key may see or touch them. Without keys they are open on loopback alone, within
the rules of `inferq.visitors` and one more: a page of another origin may not even look, since that is work for the
broker. What changes something has to come as JSON, which such a page cannot send without asking first.
"""

import asyncio
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from inferq import bodies
from inferq.broker import Broker
from inferq.errors import FieldError, Forbidden, InvalidRequest, Unavailable
from inferq.jobs import isoformat
from inferq.keyring import KeyRing, the_one
from inferq.mediatype import check_headers
from inferq.messages import DeadLetter
from inferq.names import DEAD_LIMIT, Names
from inferq.replays import MOST_AT_ONCE, replay
from inferq.visitors import Visitors
from ingress.heads import head_of

MOST_SHOWN: Final = 100
MOST_CHOSEN: Final = MOST_AT_ONCE
MOST_BODY_BYTES: Final = 16 * 1024

_log = structlog.get_logger(__name__)


class Chosen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of a replay or a drop: whose letters. Messages without an id become letters with an empty one."""

    job_ids: Annotated[
        list[Annotated[str, msgspec.Meta(max_length=100)]],
        msgspec.Meta(min_length=1, max_length=MOST_CHOSEN),
    ]


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter without its text."""

    job_id: str
    reason: str
    detail: str
    attempt: int
    died_at: str
    queue: str
    batcher: str
    history: list[dict[str, Any]]


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A letter that stays, and why."""

    job_id: str
    detail: str


_decoder: Final = msgspec.json.Decoder(Chosen)
_ALLOWED: Final = f"must be a list of 1 to {MOST_CHOSEN} ids of jobs"


class Letters:
    """Answers under `/ops/dead`."""

    def __init__(self, broker: Broker, names: Names, keys: KeyRing, visitors: Visitors) -> None:
        self._broker, self._names, self._keys, self._visitors = broker, names, keys, visitors
        # Going through the letters is work for the broker, and two at once would hide letters from each other.
        self._turn = asyncio.Lock()

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/ops/dead", self.show, methods=["GET"]),
            Route("/ops/dead/replay", self.replay, methods=["POST"]),
            Route("/ops/dead/drop", self.drop, methods=["POST"]),
        ]

    async def show(self, request: Request) -> Response:
        """Answer with the oldest letters and how many there are."""
        self._admit(request)
        async with _Turn(self._turn):
            # Before the look: RabbitMQ does not count what is in somebody's hands, nor at once what was put back.
            count = await self._broker.dead_count()
            letters = [entry.letter for entry in await self._broker.dead(MOST_SHOWN)]
        return _json({"count": max(count, len(letters)), "letters": [_shown(letter) for letter in letters]})

    async def replay(self, request: Request) -> Response:
        """Run jobs again, each as a new job; answer which became which, and which did not."""
        chosen = await self._chosen(request)
        async with _Turn(self._turn):
            letters = {
                entry.letter.job_id: entry.letter
                for entry in await self._broker.dead(DEAD_LIMIT)
                if entry.letter.job_id in chosen
            }
            found = await replay(
                self._broker, self._names, [letters[one] for one in chosen if one in letters]
            )
        failed = _failures(found.failed) + _missing(chosen, letters)
        _log.info("dead_letters.replayed", count=len(found.replayed), failed=len(failed))
        return _json({"replayed": found.replayed, "failed": failed})

    async def drop(self, request: Request) -> Response:
        """Remove letters for good."""
        chosen = await self._chosen(request)
        async with _Turn(self._turn):
            dropped = {letter.job_id for letter in await self._broker.drop_dead(set(chosen))}
        _log.info("dead_letters.dropped", count=len(dropped))
        return _json({"dropped": sorted(dropped), "failed": _missing(chosen, dropped)})

    def _admit(self, request: Request) -> None:
        headers = request.scope["headers"]
        # With keys too: a page may have been given one.
        self._visitors.admit(request.method, headers, harmless=())
        caller = self._keys.caller(the_one(headers))
        if not caller.admin:
            raise Forbidden("dead letters are everybody's: give the key of an admin")
        if not self._keys.keys and not self._visitors.local:
            raise Forbidden("dead letters are open beyond loopback with API keys alone: set INFERQ_API_KEYS")

    async def _chosen(self, request: Request) -> Sequence[str]:
        """Read whose letters are meant; each once, in their order."""
        self._admit(request)
        head = head_of(request.scope["headers"])
        check_headers(head.content_type or b"none", head.content_encoding)
        try:
            body = await bodies.read(request.receive, declared=head.length, most_bytes=MOST_BODY_BYTES)
            return list(dict.fromkeys(_decoder.decode(body).job_ids))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, bodies.Disconnected):
            fault = FieldError(pointer="/job_ids", detail=f"job_ids {_ALLOWED}")
            raise InvalidRequest(fault.detail, errors=[fault]) from None


class _Turn:
    """One at a time, and nobody waits: who comes meanwhile is told to come back."""

    def __init__(self, lock: asyncio.Lock) -> None:
        self._lock = lock

    async def __aenter__(self) -> None:
        if self._lock.locked():
            raise Unavailable("somebody else is at the dead letters")
        await self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()


def _missing(chosen: Iterable[str], found: Container[str]) -> list[Failure]:
    return _failures({one: "there is no such dead letter" for one in chosen if one not in found})


def _failures(details: Mapping[str, str]) -> list[Failure]:
    return [Failure(job_id=job_id, detail=detail) for job_id, detail in details.items()]


def _shown(letter: DeadLetter) -> Shown:
    return Shown(
        job_id=letter.job_id,
        reason=letter.reason,
        detail=letter.detail,
        attempt=letter.attempt,
        died_at=isoformat(letter.died_ms),
        queue=letter.queue,
        batcher=letter.batcher,
        history=letter.history,
    )


def _json(content: Any) -> Response:
    return Response(
        msgspec.json.encode(content),
        media_type="application/json",
        headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"},
    )
