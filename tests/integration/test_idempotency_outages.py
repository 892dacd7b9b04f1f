"""Idempotency keys while Redis is away at each step, while processes die, and against a model."""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from redis import Redis

from inferq.errors import QueueFull, Unavailable
from inferq.idem_scripts import CLAIM, KEEP, LET_GO
from ingress.claims import Kept, Look, Mine, Mismatch, Pending, read_look
from ingress.idempotency import CLAIM_S, Done
from tests.claimants import BODY, KEY, PATH, Ingress, Ingresses, Work, age, answer, held, ingresses, place
from tests.deployment import Deployment
from tests.proxy import Proxy, proxied
from tests.support import eventually

# How soon they answer is what they are about.
pytestmark = pytest.mark.alone

# A request that Redis leaves alone is answered within this, the work itself aside.
BOUND_S: Final = 2.0


@pytest.fixture
async def make(streams: Deployment) -> AsyncIterator[Ingresses]:
    """Makes ingresses, each with a connection of its own."""
    async with ingresses(streams) as maker:
        yield maker


@asynccontextmanager
async def behind_a_proxy(streams: Deployment, make: Ingresses) -> AsyncIterator[tuple[Proxy, Ingress]]:
    """Lend an ingress whose Redis can be cut off or frozen; it is connected, and Redis knows its scripts."""
    async with proxied(streams.redis_url) as (proxy, url):
        ingress = make(url=url)
        for script in (CLAIM, KEEP, LET_GO):
            await ingress.redis.script_load(script.text)
        yield proxy, ingress


async def break_off(proxy: Proxy, how: str) -> None:
    """Take Redis away: as one that was killed, or as one that was stopped."""
    if how == "cut":
        await proxy.cut()
    else:
        proxy.freeze()


@pytest.mark.parametrize("how", ["cut", "freeze"])
async def test_redis_is_away_before_the_claim(streams: Deployment, make: Ingresses, how: str) -> None:
    """The request is refused in bounded time and nothing runs; a frozen Redis is left no claim that holds others up."""
    async with behind_a_proxy(streams, make) as (proxy, ingress):
        await break_off(proxy, how)
        work, begun = Work(), time.monotonic()
        with pytest.raises(Unavailable):
            await ingress.once(work)
        assert time.monotonic() - begun < BOUND_S
        assert work.calls == []
        assert ingress.outcomes == {"unavailable": 1}
        proxy.resume()
        # What was held back arrives at any time from now on: the claim, and that it was let go.
        again = await ingress.once(work)
        assert again == answer(work.seed)


@pytest.mark.parametrize("how", ["cut", "freeze"])
async def test_redis_is_away_when_the_answer_is_to_be_kept(
    streams: Deployment, make: Ingresses, how: str
) -> None:
    """The answer goes out in bounded time; a repeat takes the claim over, with the same seed and so the same answer."""
    async with behind_a_proxy(streams, make) as (proxy, ingress):
        work, again = held(), Work()
        request = ingress.start(work)
        await work.begins()
        await break_off(proxy, how)
        begun = time.monotonic()
        work.let_through()
        assert await request == answer(work.seed)
        assert time.monotonic() - begun < BOUND_S
        assert ingress.outcomes == {"unkept": 1}
        # Cut for good: of a frozen one the answer may yet arrive.
        await proxy.cut()
        await age(streams)
        assert await make().once(again) == answer(work.seed)
        assert again.calls == [(work.seed, True)]


@pytest.mark.parametrize("how", ["cut", "freeze"])
async def test_redis_is_away_when_the_claim_is_to_be_let_go(
    streams: Deployment, make: Ingresses, how: str
) -> None:
    """The error goes out in bounded time; the claim is taken over once it is old."""
    async with behind_a_proxy(streams, make) as (proxy, ingress):
        work, again = held(), Work()
        work.error = QueueFull("full")
        request = ingress.start(work)
        await work.begins()
        await break_off(proxy, how)
        begun = time.monotonic()
        work.let_through()
        with pytest.raises(QueueFull):
            await request
        assert time.monotonic() - begun < BOUND_S
        await proxy.cut()
        await age(streams)
        assert await make().once(again) == answer(work.seed)
        assert again.calls == [(work.seed, True)]


@pytest.mark.parametrize("how", ["cut", "freeze"])
async def test_redis_is_away_while_a_twin_waits(streams: Deployment, make: Ingresses, how: str) -> None:
    """The twin is refused in bounded time; the first, whose Redis is there, is answered."""
    one, work = make(), held()
    first = one.start(work)
    await work.begins()
    async with behind_a_proxy(streams, make) as (proxy, other):
        twin = other.start(Work())
        await other.waits()
        await break_off(proxy, how)
        begun = time.monotonic()
        with pytest.raises(Unavailable):
            await twin
        assert time.monotonic() - begun < BOUND_S
        assert (other.waiting, other.outcomes) == (0, {"unavailable": 1})
    work.let_through()
    assert await first == answer(work.seed)


async def test_a_claim_whose_reply_was_lost_keeps_its_seed(streams: Deployment, make: Ingresses) -> None:
    """Who gives up a takeover that Redis did make hands the dead claimant's seed on; it is not forgotten."""
    dead, lost = make(), held()
    request = dead.start(lost)
    await lost.begins()
    await dead.die(request)
    async with behind_a_proxy(streams, make) as (proxy, ingress):
        await age(streams)
        proxy.freeze()
        with pytest.raises(Unavailable):
            await ingress.once(Work())
        proxy.resume()

        async def handed_on() -> bool:
            return await streams.redis.hget(place(streams), "at_ms") == b"0"

        await eventually(handed_on, what="the seed handed on")
    work = Work()
    assert await make().once(work) == answer(lost.seed)
    assert work.calls == [(lost.seed, True)]


async def test_who_is_cancelled_twice_still_lets_go(streams: Deployment, make: Ingresses) -> None:
    """The second cancellation ends the request at once, even before a word went out; the claim goes all the same."""
    ingress, work = make(), held()
    request = ingress.start(work)
    await work.begins()
    request.cancel()
    # One turn of the loop: it has begun to let go, and nothing was sent yet.
    await asyncio.sleep(0)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request

    again = Work()
    assert await ingress.once(again) == answer(work.seed)
    assert again.resumed == [True]


async def test_scripts_that_redis_forgot_are_loaded_again(streams: Deployment, make: Ingresses) -> None:
    """As after its restart: between any two steps."""
    ingress, work = make(), held()
    await streams.redis.script_flush()
    request = ingress.start(work)
    await work.begins()
    await streams.redis.script_flush()
    work.let_through()
    assert await request == answer(work.seed)
    broken = Work(error=QueueFull("full"))
    with pytest.raises(QueueFull):
        await ingress.once(broken, key=b"another")
    await streams.redis.script_flush()
    assert (await ingress.once(Work())).replayed


@dataclass(kw_only=True)
class _Jobs:
    """A queue that takes a seed's job once, however often it is submitted; ``accepted`` are those that it holds."""

    chance: random.Random
    accepted: set[str] = field(default_factory=set)
    refused: int = 0

    async def submit(self, seed: str, resumed: bool) -> Done:
        """Accept, sooner or later, or refuse."""
        for _ in range(self.chance.randrange(20)):
            await asyncio.sleep(0)
        if seed in self.accepted and not resumed:
            # One that was so slow that another took its claim over and was accepted first.
            self.refused += 1
            raise Unavailable("the id is taken")
        if seed not in self.accepted and self.chance.random() < 0.6:
            self.refused += 1
            raise QueueFull("full")
        self.accepted.add(seed)
        return answer(seed)

    async def persist(self, ingress: Ingress) -> Done:
        """Repeat a request until it is accepted."""
        while True:
            try:
                return await ingress.idempotency.once(
                    scope="", path=PATH, key=KEY, body=BODY, work=self.submit
                )
            except (QueueFull, Unavailable):
                continue


# At age 0 everybody takes over, the claims of those who are still at work and are refused or accepted later too.
@pytest.mark.parametrize("claim_s", [CLAIM_S, 0.0])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("one_died", [False, True])
async def test_however_many_take_over_and_are_refused_one_job_is_made(
    streams: Deployment, make: Ingresses, seed: int, claim_s: float, one_died: bool
) -> None:
    """Thirty twins in three processes, perhaps after one that died when its job was accepted: one job, one answer."""
    jobs = _Jobs(chance=random.Random(seed))
    if one_died:
        dead, lost = make(), held()
        request = dead.start(lost)
        await lost.begins()
        jobs.accepted.add(lost.seed)
        await dead.die(request)
        await age(streams)
    alive = [make(claim_s=claim_s) for _ in range(3)]
    async with asyncio.timeout(20.0):
        answers = await asyncio.gather(*(jobs.persist(alive[number % 3]) for number in range(30)))
    (accepted,) = jobs.accepted
    assert {done.answer for done in answers} == {answer(accepted).answer}
    assert sum(ingress.outcomes.get("failed", 0) for ingress in alive) == jobs.refused
    if claim_s > 0:
        assert sum(not done.replayed for done in answers) == 1


@dataclass(kw_only=True)
class _Expected:
    """What the model holds under a key."""

    mark: str
    seed: str
    token: str
    old: bool = False
    answer: bytes = b""


@dataclass(kw_only=True)
class _Worker:
    """Whoever was given a claim."""

    key: str
    seed: str
    token: str


class _Steps(RuleBasedStateMachine):
    """Steps of many claimants in any order, each checked against a model that is a dictionary."""

    redis: Redis
    prefix: str

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, _Expected] = {}
        self.workers: list[_Worker] = []
        self.drawn = 0
        for key in ("a", "b"):
            self.redis.delete(self.prefix + key)

    def _run(self, text: str, key: str, *args: str | int | bytes) -> Any:
        return self.redis.eval(text, 1, self.prefix + key, *args)

    @rule(key=st.sampled_from("ab"), mark=st.sampled_from("xy"))
    def ask(self, key: str, mark: str) -> None:
        """Claim a key for one of two bodies."""
        self.drawn += 1
        seed, token, mark = f"{self.drawn:032x}", f"t{self.drawn}", mark * 64
        look = read_look(self._run(CLAIM.text, key, mark, seed, token, 600, 60_000))
        there = self.kept.get(key)
        expected: Look
        if there is None:
            expected = Mine(seed=seed, resumed=False)
            self.kept[key] = _Expected(mark=mark, seed=seed, token=token)
        elif there.mark != mark:
            expected = Mismatch()
        elif there.answer:
            expected = Kept(answer=there.answer, location="/v1/jobs/" + there.seed)
        elif there.old:
            expected = Mine(seed=there.seed, resumed=True)
            there.token, there.old = token, False
        else:
            expected = Pending()
        assert look == expected
        if isinstance(look, Mine):
            self.workers.append(_Worker(key=key, seed=look.seed, token=token))

    @precondition(lambda self: any(not there.answer for there in self.kept.values()))
    @rule(data=st.data())
    def grow_old(self, data: st.DataObject) -> None:
        """Let the time pass after which a claim is taken over."""
        key = data.draw(st.sampled_from(sorted(key for key in self.kept if not self.kept[key].answer)))
        self.redis.hset(self.prefix + key, "at_ms", "1000")
        self.kept[key].old = True

    @precondition(lambda self: self.workers)
    @rule(data=st.data())
    def succeed(self, data: st.DataObject) -> None:
        """Work ends well, in time or late."""
        worker = self._leaving(data)
        there = self._its(worker)
        answer = b"answer of " + worker.seed.encode()
        kept = self._run(KEEP.text, worker.key, worker.token, answer, "/v1/jobs/" + worker.seed, 600)
        assert kept == (there is not None)
        if there is not None:
            there.answer = answer

    @precondition(lambda self: self.workers)
    @rule(data=st.data(), forget=st.booleans())
    def fail(self, data: st.DataObject, forget: bool) -> None:
        """Work raises, in time or late."""
        worker = self._leaving(data)
        there = self._its(worker)
        assert self._run(LET_GO.text, worker.key, worker.token, int(forget)) == (there is not None)
        if there is not None and forget:
            del self.kept[worker.key]
        elif there is not None:
            there.old = True

    @precondition(lambda self: self.workers)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        """Nothing more is heard of a claimant."""
        self._leaving(data)

    @rule(key=st.sampled_from("ab"))
    def expire(self, key: str) -> None:
        """Redis forgets a key whose time is over."""
        self.redis.delete(self.prefix + key)
        self.kept.pop(key, None)

    @invariant()
    def everything_goes_by_itself(self) -> None:
        """What is there has a time to live, and what is not there is in no model."""
        for key in ("a", "b"):
            assert (self.redis.ttl(self.prefix + key) > 0) == (key in self.kept)

    def _leaving(self, data: st.DataObject) -> _Worker:
        return self.workers.pop(data.draw(st.integers(0, len(self.workers) - 1)))

    def _its(self, worker: _Worker) -> _Expected | None:
        """What the model holds, if the worker's claim still stands."""
        there = self.kept.get(worker.key)
        return there if there is not None and not there.answer and there.token == worker.token else None


def test_the_steps_follow_the_model(valkey_url: str, namespace: str) -> None:
    """Whatever claimants do, and in whatever order: one claim, one seed until it is forgotten, one answer."""
    with Redis.from_url(valkey_url) as redis:
        machine = type("Steps", (_Steps,), {"redis": redis, "prefix": f"{namespace}idem:"})
        run_state_machine_as_test(
            machine,
            settings=settings(
                derandomize=True,
                database=None,
                deadline=None,
                max_examples=60,
                stateful_step_count=40,
                suppress_health_check=[HealthCheck.too_slow],
            ),
        )
        redis.delete(f"{namespace}idem:a", f"{namespace}idem:b")
