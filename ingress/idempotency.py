"""Answers a request that repeats an idempotency key as the first one was answered; the rules are in `ingress.claims`.

All that counts is in Redis, so it holds across processes and their deaths. Whoever finds another at work asks again,
at most `WAIT_S` in all and `MAX_WAITING` of them in a process.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
import structlog

from inferq.backoff import Backoff
from inferq.errors import IdempotencyMismatch, Unavailable
from inferq.idem_scripts import CLAIM, KEEP, LET_GO
from inferq.names import Names
from inferq.redis import Client, evaluate, translated
from inferq.scripts import Script
from inferq.telemetry import Metrics
from ingress.claims import Foreign, Kept, Mine, Mismatch, Pending, SeedSpent, is_forgotten, read_look
from ingress.idemkey import digest, fingerprint

# Longer than the claimant of a single submit takes: one step in Redis, the work (1.5 s) and another step. A batch can
# take longer while Redis or the broker hardly answers; then it may be taken over as it works, which makes no job twice.
CLAIM_S: Final = 3.0
# One step in Redis, its connection included. Letting go holds up an error that is due.
STEP_S: Final = 0.5
LET_GO_S: Final = 0.25
# However short answers are kept, a claim outlives its work: else a twin would begin anew beside the first.
LEAST_CLAIM_TTL_S: Final = 60
WAIT_S: Final = 2.0
FIRST_WAIT_S: Final = 0.005
MOST_WAIT_S: Final = 0.1
MAX_WAITING: Final = 256
# Four times what a batch of 256 jobs is answered with.
MAX_ANSWER_BYTES: Final = 256 * 1024
# A seed of another that is spent is followed by one of our own.
ROUNDS: Final = 2

OUTCOMES: Final = (
    "first", "taken_over", "unkept", "replayed", "waited", "mismatch", "failed", "timed_out", "crowded", "foreign",
    "unavailable",
)  # fmt: skip  # one list reads in two lines

_log = structlog.get_logger(__name__)


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """An answer 202: its body, its `Location`, and whether it was given before."""

    answer: bytes
    location: str | None = None
    replayed: bool = False


Work = Callable[[str, bool], Awaitable[Done]]


class _Claim(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    fingerprint: str
    seed: str
    token: str
    until_s: float


class Idempotency:
    """Has work done once for each key; ``ttl_s`` is how long an answer is kept.

    ``claim_s`` is the age at which a claim is taken over, ``wait_s`` how long a request waits for another's outcome.
    """

    def __init__(
        self,
        redis: Client,
        names: Names,
        metrics: Metrics,
        *,
        ttl_s: int,
        claim_s: float = CLAIM_S,
        wait_s: float = WAIT_S,
    ) -> None:
        self._redis, self._names, self._ttl_s = redis, names, ttl_s
        self._claim_ms, self._wait_s = round(claim_s * 1000), wait_s
        outcomes = metrics.counter("idempotent", "Submits with an Idempotency-Key by outcome", "outcome")
        self._outcomes = {outcome: outcomes.labels(outcome) for outcome in OUTCOMES}
        self._waiting = metrics.gauge(
            "idempotent_waiting", "Submits that wait for the outcome of an equal one"
        )
        self._waiting_requests = 0
        self._foreign_told = False
        self._letting_go: set[asyncio.Task[None]] = set()

    async def once(self, *, scope: str, path: str, key: bytes, body: bytes, work: Work) -> Done:
        """Return the first answer to this key, by having ``work`` make it or as it was kept.

        ``work`` gets a seed of 32 hexadecimal digits that job ids are made of, and whether another may have begun with
        it; it ends in bounded time. What it raises is raised here, and is no answer. An answer over `MAX_ANSWER_BYTES`,
        or one that Redis did not take, goes out but is not kept: a repeat has work resume with the same seed.

        Raises:
            IdempotencyMismatch: the key is that of a request with another body.
            Unavailable: Redis is away, another took too long, too many wait, or what is kept is none of ours.
        """
        name, mark = self._names.idem(digest(scope=scope, path=path, key=key)), fingerprint(body)
        until_s = asyncio.get_running_loop().time() + self._wait_s
        for _ in range(ROUNDS):
            seed, token = os.urandom(16).hex(), os.urandom(16).hex()
            claim = _Claim(key=name, fingerprint=mark, seed=seed, token=token, until_s=until_s)
            look, waited = await self._look(claim), False
            if isinstance(look, Pending):
                look, waited = await self._wait(claim), True
            if isinstance(look, Kept):
                self._count("waited" if waited else "replayed")
                return Done(answer=look.answer, location=look.location, replayed=True)
            try:
                return await self._first(claim, look, work)
            except SeedSpent:
                _log.info("idempotency.seed_spent", job_id=look.seed)
        self._count("failed")
        raise Unavailable("the request's job was recorded before, but never accepted")

    async def _first(self, claim: _Claim, mine: Mine, work: Work) -> Done:
        """Make the first answer, and keep it."""
        try:
            done = await work(mine.seed, mine.resumed)
        except BaseException as error:
            if not isinstance(error, SeedSpent):
                self._count("failed")
            await self._let_go(claim, forget=is_forgotten(error, resumed=mine.resumed))
            raise
        kept = await self._keep(claim, done)
        self._count(("taken_over" if mine.resumed else "first") if kept else "unkept")
        return done

    async def _look(self, claim: _Claim) -> Mine | Kept | Pending:
        """Claim the key, or see what is there."""
        ttl_s = max(self._ttl_s, LEAST_CLAIM_TTL_S)
        args = [claim.fingerprint, claim.seed, claim.token, ttl_s, self._claim_ms]
        try:
            look = read_look(await self._step("take the claim", CLAIM, claim, args))
        except BaseException as error:
            if isinstance(error, Unavailable):
                self._count("unavailable")
            # It may be ours without our knowing, and with another's seed.
            await self._let_go(claim, forget=False)
            raise
        if isinstance(look, Mismatch):
            self._count("mismatch")
            raise IdempotencyMismatch("this Idempotency-Key was used for a request with another body")
        if isinstance(look, Foreign):
            self._count("foreign")
            if not self._foreign_told:
                self._foreign_told = True
                _log.error("idempotency.foreign_value")
            raise Unavailable("what is kept for this Idempotency-Key cannot be read")
        return look

    async def _wait(self, claim: _Claim) -> Mine | Kept:
        """Ask again until another has an outcome, or his claim is ours."""
        if self._waiting_requests >= MAX_WAITING:
            self._count("crowded")
            raise Unavailable(f"{MAX_WAITING} requests wait already for the first answer to theirs")
        backoff, clock = Backoff(first_s=FIRST_WAIT_S, most_s=MOST_WAIT_S), asyncio.get_running_loop().time
        self._waiting_requests += 1
        self._waiting.inc()
        try:
            while (left_s := claim.until_s - clock()) > 0:
                await asyncio.sleep(min(left_s, backoff.next_s()))
                look = await self._look(claim)
                if not isinstance(look, Pending):
                    return look
        finally:
            self._waiting_requests -= 1
            self._waiting.dec()
        self._count("timed_out")
        raise Unavailable("the first request with this Idempotency-Key has no outcome yet")

    async def _keep(self, claim: _Claim, done: Done) -> bool:
        """Keep the answer; say whether it is kept, by us or by who took over."""
        if len(done.answer) > MAX_ANSWER_BYTES:
            _log.warning("idempotency.answer_too_large", bytes=len(done.answer))
            return False
        args = [claim.token, done.answer, done.location or "", self._ttl_s]
        try:
            await self._step("keep the answer", KEEP, claim, args)
        except Unavailable as error:
            _log.debug("idempotency.not_kept", error=str(error))
            return False
        return True

    async def _let_go(self, claim: _Claim, *, forget: bool) -> None:
        """Let go of the claim, if it is ours; whoever cancels the caller does not cancel this."""
        task = asyncio.create_task(self._letting(claim, forget))
        self._letting_go.add(task)
        task.add_done_callback(self._letting_go.discard)
        await asyncio.shield(task)

    async def _letting(self, claim: _Claim, forget: bool) -> None:
        try:
            await self._step("let go of the claim", LET_GO, claim, [claim.token, int(forget)], LET_GO_S)
        except Unavailable as error:
            # It is taken over once it is old enough.
            _log.debug("idempotency.not_let_go", error=str(error))

    async def _step(
        self, what: str, script: Script, claim: _Claim, args: list[Any], within_s: float = STEP_S
    ) -> Any:
        async with translated(what), asyncio.timeout(within_s):
            return await evaluate(self._redis, script, [claim.key], args)

    def _count(self, outcome: str) -> None:
        self._outcomes[outcome].inc()
