"""Idempotency keys in the real Valkey: the first answer again, for every twin, in every process."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import structlog

import ingress.idempotency as module
from inferq.errors import IdempotencyMismatch, QueueFull, Unavailable
from ingress.claims import SeedSpent
from ingress.idemkey import fingerprint
from ingress.idempotency import MAX_ANSWER_BYTES, Done
from tests.claimants import BODY, KEY, OTHER, PATH, Ingresses, Work, age, answer, held, ingresses, place
from tests.deployment import Deployment
from tests.support import eventually


@pytest.fixture
async def make(streams: Deployment) -> AsyncIterator[Ingresses]:
    """Makes ingresses, each with a connection of its own."""
    async with ingresses(streams) as maker:
        yield maker


async def test_a_repeat_is_answered_as_the_first_was(make: Ingresses) -> None:
    """Body and `Location` are the first answer's, in any process, and nothing runs for it."""
    one, other, work, again = make(), make(), Work(), Work()
    first = await one.once(work)
    assert first == answer(work.seed)
    assert work.resumed == [False]
    for ingress in (one, other, other):
        assert await ingress.once(again) == answer(work.seed, replayed=True)
    assert again.calls == []
    assert (one.outcomes, other.outcomes) == ({"first": 1, "replayed": 1}, {"replayed": 2})


async def test_an_answer_without_a_location_has_none_when_it_is_repeated(make: Ingresses) -> None:
    """As a batch's, which names many jobs."""
    ingress = make()

    async def work(seed: str, resumed: bool) -> Done:
        return Done(answer=b"\x00\xff{}")

    for replayed in (False, True):
        done = await ingress.idempotency.once(scope="", path=PATH, key=KEY, body=BODY, work=work)
        assert done == Done(answer=b"\x00\xff{}", location=None, replayed=replayed)


async def test_fifty_twins_have_one_answer(make: Ingresses) -> None:
    """They come at once, to two processes; work runs once, and all the others wait for it."""
    one, other, work = make(), make(), held()
    requests = [ingress.start(work) for ingress in [one, other] * 25]
    await eventually(lambda: one.waiting + other.waiting == 49, what="49 who wait")
    work.let_through()
    answers = await asyncio.gather(*requests)
    seed = work.seed
    assert sorted(done.replayed for done in answers) == [False] + [True] * 49
    assert {(done.answer, done.location) for done in answers} == {
        (answer(seed).answer, answer(seed).location)
    }
    assert (one.waiting, other.waiting) == (0, 0)
    outcomes = [one.outcomes, other.outcomes]
    assert sum(counts.get("first", 0) for counts in outcomes) == 1
    assert sum(counts.get("waited", 0) for counts in outcomes) == 49


async def test_callers_endpoints_and_keys_are_told_apart(make: Ingresses) -> None:
    """Each combination has an answer of its own."""
    ingress, work = make(), Work()
    for scope in ("", "one"):
        for path in (PATH, "/v1/infer/batch"):
            for key in (b"a", b"A"):
                assert not (await ingress.once(work, scope=scope, path=path, key=key)).replayed
    assert len({seed for seed, _ in work.calls}) == 8


async def test_another_body_under_the_same_key_is_refused(make: Ingresses) -> None:
    """At once, while the first is at work and after it; the first answer stays."""
    one, other, work = make(), make(), held()
    first = one.start(work)
    await work.begins()
    with pytest.raises(IdempotencyMismatch):
        await other.once(Work(), body=OTHER)
    work.let_through()
    await first
    with pytest.raises(IdempotencyMismatch) as caught:
        await other.once(Work(), body=OTHER)
    assert "key-1" not in caught.value.detail
    assert await other.once(Work()) == answer(work.seed, replayed=True)
    assert other.outcomes == {"mismatch": 2, "replayed": 1}


async def test_a_refusal_is_nobodys_answer(streams: Deployment, make: Ingresses) -> None:
    """A twin that waited tries anew, with a seed of its own; so does one with another body."""
    one, other, broken, work = make(), make(), held(), Work()
    broken.error = error = QueueFull("full")
    first = one.start(broken)
    await broken.begins()
    twin = other.start(work)
    await other.waits()
    broken.let_through()
    with pytest.raises(type(error)) as caught:
        await first
    assert caught.value is error
    assert await twin == answer(work.seed)
    assert work.resumed == [False]
    assert work.seed != broken.seed
    await streams.redis.delete(place(streams))
    with pytest.raises(type(error)):
        await one.once(broken)
    # Over its own connection, so that what it has yet to send comes after this.
    assert not await one.redis.exists(place(streams))
    assert not (await one.once(Work(), body=OTHER)).replayed
    assert one.outcomes == {"failed": 2, "first": 1}


@pytest.mark.parametrize("error", [Unavailable("away"), RuntimeError("a fault")])
async def test_what_may_have_been_accepted_is_made_again(make: Ingresses, error: Exception) -> None:
    """Nobody knows what became of the first: a twin goes on at once with its seed, so there is no second job."""
    one, other, broken, work = make(), make(), held(), Work()
    broken.error = error
    first = one.start(broken)
    await broken.begins()
    twin = other.start(work)
    await other.waits()
    broken.let_through()
    with pytest.raises(type(error)):
        await first
    assert await twin == answer(broken.seed)
    assert work.resumed == [True]
    assert work.seed == broken.seed


async def test_a_request_that_is_cut_off_is_made_again(make: Ingresses) -> None:
    """Its claim is let go by the time that it has ended, with its seed."""
    ingress, work = make(), held()
    request = ingress.start(work)
    await work.begins()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    again = Work()
    assert await ingress.once(again) == answer(work.seed)
    assert again.resumed == [True]


async def test_a_twin_that_leaves_takes_nothing_with_it(make: Ingresses) -> None:
    """Nor does it stay among those who wait."""
    ingress, work = make(), held()
    first, twin = ingress.start(work), ingress.start(Work())
    await ingress.waits()
    twin.cancel()
    with pytest.raises(asyncio.CancelledError):
        await twin
    assert ingress.waiting == 0
    work.let_through()
    assert await first == answer(work.seed)


async def test_a_dead_claimants_seed_is_used_again(streams: Deployment, make: Ingresses) -> None:
    """A killed process may have recorded its jobs: who takes over makes the same ones, and answers as the first."""
    dead, alive, lost, work = make(), make(), held(), Work()
    request = dead.start(lost)
    await lost.begins()
    twin = alive.start(work)
    await alive.waits()
    await dead.die(request)
    assert not twin.done(), "the claim is young, and nobody has said that its claimant is dead"
    await age(streams)
    assert await twin == answer(lost.seed)
    assert work.calls == [(lost.seed, True)]
    assert await alive.once(Work()) == answer(lost.seed, replayed=True)
    assert alive.outcomes == {"taken_over": 1, "replayed": 1}


async def test_the_age_at_which_a_claim_is_taken_over_is_a_setting(make: Ingresses) -> None:
    """At age 0 nobody waits; and of those who take over at once each has the same seed."""
    patient, hasty, lost, work = make(), make(claim_s=0.0), held(), held()
    first = patient.start(lost)
    await lost.begins()
    others = [hasty.start(work) for _ in range(5)]
    await work.begins(5)
    assert set(work.calls) == {(lost.seed, True)}
    work.let_through()
    lost.let_through()
    assert set(await asyncio.gather(first, *others)) == {answer(lost.seed)}


async def test_a_claim_from_the_future_is_taken_over(streams: Deployment, make: Ingresses) -> None:
    """Redis' clock was set back: else nobody could have an answer until it has caught up."""
    dead, alive, lost, work = make(), make(), held(), Work()
    request = dead.start(lost)
    await lost.begins()
    await dead.die(request)
    await streams.redis.hset(place(streams), "at_ms", "4000000000000")
    assert await alive.once(work) == answer(lost.seed)


async def test_a_claimant_that_was_frozen_changes_nothing_when_it_wakes(
    streams: Deployment, make: Ingresses
) -> None:
    """What the one who took over kept stays; the late answer is the same one and goes out."""
    frozen, alive, late, work = make(), make(), held(), Work()
    request = frozen.start(late)
    await late.begins()
    await age(streams)
    assert await alive.once(work) == answer(late.seed)
    kept = await streams.redis.hgetall(place(streams))
    await streams.redis.expire(place(streams), 100)
    late.let_through()
    assert await request == answer(late.seed)
    assert await streams.redis.hgetall(place(streams)) == kept
    assert await streams.redis.ttl(place(streams)) <= 100


async def test_a_frozen_claimants_error_does_not_end_anothers_claim(
    streams: Deployment, make: Ingresses
) -> None:
    """It lets go of its own claim alone."""
    frozen, alive, late, work = make(), make(), held(), held()
    request = frozen.start(late)
    await late.begins()
    await age(streams)
    taker = alive.start(work)
    await work.begins()
    late.error = QueueFull("full")
    late.let_through()
    with pytest.raises(QueueFull):
        await request
    work.let_through()
    assert await taker == answer(late.seed)
    assert await alive.once(Work()) == answer(late.seed, replayed=True)


async def abandoned(streams: Deployment, make: Ingresses) -> str:
    """Leave an old claim; return its seed."""
    dead, lost = make(), held()
    request = dead.start(lost)
    await lost.begins()
    await dead.die(request)
    await age(streams)
    return lost.seed


@pytest.mark.parametrize("error", [QueueFull("full"), Unavailable("away"), RuntimeError("a fault")])
async def test_a_dead_claimants_seed_outlives_an_error(
    streams: Deployment, make: Ingresses, error: Exception
) -> None:
    """What the dead one did is still not known, so the next asker has his seed, at once; as the one who waits has."""
    seed, one, other, broken, work = await abandoned(streams, make), make(), make(), held(), Work()
    broken.error = error
    taker = one.start(broken)
    await broken.begins()
    twin = other.start(work)
    await other.waits()
    broken.let_through()
    with pytest.raises(type(error)):
        await taker
    assert await twin == answer(seed)
    assert broken.calls + work.calls == [(seed, True)] * 2
    assert (one.outcomes, other.outcomes) == ({"failed": 1}, {"taken_over": 1})


async def test_a_request_that_is_cut_off_hands_a_dead_claimants_seed_on(
    streams: Deployment, make: Ingresses
) -> None:
    """The one who had taken it over leaves it to the next."""
    seed, ingress, work, again = await abandoned(streams, make), make(), held(), Work()
    request = ingress.start(work)
    await work.begins()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert await ingress.once(again) == answer(seed)
    assert again.calls == [(seed, True)]


async def test_a_spent_seed_is_replaced_at_once(streams: Deployment, make: Ingresses) -> None:
    """Its job ended without ever having been accepted: the same request goes on with a fresh one."""
    seed, ingress = await abandoned(streams, make), make()
    calls: list[tuple[str, bool]] = []

    async def work(one: str, resumed: bool) -> Done:
        calls.append((one, resumed))
        if resumed:
            raise SeedSpent
        return answer(one)

    done = await ingress.idempotency.once(scope="", path=PATH, key=KEY, body=BODY, work=work)
    (first, (fresh, resumed)) = calls
    assert (first, resumed, done) == ((seed, True), False, answer(fresh))
    assert fresh != seed
    assert await ingress.once(Work()) == answer(fresh, replayed=True)
    assert ingress.outcomes == {"first": 1, "replayed": 1}


async def test_seeds_that_are_all_spent_are_given_up(streams: Deployment, make: Ingresses) -> None:
    """Twice is enough; the next request begins anew."""
    ingress, work = make(), Work(error=SeedSpent())
    with pytest.raises(Unavailable):
        await ingress.once(work)
    assert work.resumed == [False, False]
    assert len(set(work.calls)) == 2
    assert ingress.outcomes == {"failed": 1}
    assert not await streams.redis.exists(place(streams))


async def test_who_waits_too_long_is_told_to_come_back(make: Ingresses) -> None:
    """The first goes on, and its answer is there later."""
    one, other, work = make(), make(wait_s=0.05), held()
    first = one.start(work)
    await work.begins()
    with pytest.raises(Unavailable, match="no outcome yet") as caught:
        await other.once(Work())
    assert caught.value.retry_after_s == 1
    assert other.waiting == 0
    work.let_through()
    await first
    assert await other.once(Work()) == answer(work.seed, replayed=True)
    assert other.outcomes == {"timed_out": 1, "replayed": 1}


async def test_who_wait_are_bounded(make: Ingresses, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is refused at once, while those who wait still have their answer; then there is room again."""
    monkeypatch.setattr(module, "MAX_WAITING", 2)
    ingress = make()
    for key in (b"a", b"b"):
        work = held()
        requests = [ingress.start(work, key=key) for _ in range(3)]
        await ingress.waits(2)
        with pytest.raises(Unavailable, match="2 requests wait already"):
            await ingress.once(Work(), key=key)
        work.let_through()
        assert sorted(done.replayed for done in await asyncio.gather(*requests)) == [False, True, True]
    assert ingress.outcomes == {"crowded": 2, "first": 2, "waited": 4}


async def test_an_answer_is_kept_as_long_as_results(streams: Deployment, make: Ingresses) -> None:
    """From when it was given; reading it does not prolong that, and afterwards the key is free."""
    ingress, work = make(ttl_s=600), held()
    request = ingress.start(work)
    await work.begins()
    assert 590 < await streams.redis.ttl(place(streams)) <= 600
    await streams.redis.expire(place(streams), 100)
    work.let_through()
    await request
    assert 590 < await streams.redis.ttl(place(streams)) <= 600
    assert set(await streams.redis.hgetall(place(streams))) == {b"fingerprint", b"answer", b"location"}
    await streams.redis.expire(place(streams), 100)
    assert (await ingress.once(Work())).replayed
    assert await streams.redis.ttl(place(streams)) <= 100
    await streams.redis.delete(place(streams))
    assert not (await ingress.once(Work())).replayed


async def test_a_claim_outlives_the_work_however_short_answers_are_kept(
    streams: Deployment, make: Ingresses
) -> None:
    """Else a twin could begin anew beside the first."""
    ingress, work = make(ttl_s=1), held()
    request = ingress.start(work)
    await work.begins()
    assert 50 < await streams.redis.ttl(place(streams)) <= 60
    work.let_through()
    await request
    assert await streams.redis.pttl(place(streams)) <= 1000


async def test_an_answer_that_is_too_large_goes_out_and_is_not_kept(
    streams: Deployment, make: Ingresses
) -> None:
    """A repeat resumes with the same seed; at the bound itself it is kept."""
    ingress, sizes = make(), [MAX_ANSWER_BYTES + 1, MAX_ANSWER_BYTES]
    calls: list[tuple[str, bool]] = []

    async def work(seed: str, resumed: bool) -> Done:
        calls.append((seed, resumed))
        return Done(answer=b"a" * sizes[len(calls) - 1])

    async def once() -> Done:
        return await ingress.idempotency.once(scope="", path=PATH, key=KEY, body=BODY, work=work)

    assert len((await once()).answer) == MAX_ANSWER_BYTES + 1
    await age(streams)
    assert len((await once()).answer) == MAX_ANSWER_BYTES
    assert (await once()).replayed
    assert calls == [(calls[0][0], False), (calls[0][0], True)]
    assert ingress.outcomes == {"unkept": 1, "taken_over": 1, "replayed": 1}


@pytest.mark.parametrize(
    "fields",
    [
        {"a": "b"},
        {"fingerprint": "short", "answer": "{}"},
        {"fingerprint": "@"},
        {"fingerprint": "@", "seed": "0" * 32, "token": "t"},
        {"fingerprint": "@", "seed": "0" * 32, "token": "t", "at_ms": "soon"},
        {"fingerprint": "@", "seed": "../../etc", "token": "t", "at_ms": "1"},
        {"fingerprint": "@", "answer": ""},
        {"fingerprint": "@", "answer": "{}", "location": "/é"},
    ],
)
async def test_a_hash_that_is_none_of_ours_is_no_answer(
    streams: Deployment, make: Ingresses, fields: dict[str, str]
) -> None:
    """Whatever is missing or wrong in it, the request is refused as our fault, and nothing runs."""
    ingress, work = make(), Work()
    mark = fingerprint(BODY)
    await streams.redis.hset(
        place(streams), mapping={name: mark if value == "@" else value for name, value in fields.items()}
    )
    with pytest.raises(Unavailable):
        await ingress.once(work)
    assert work.calls == []
    assert ingress.outcomes == {"foreign": 1}


async def test_a_key_of_another_type_is_told_once_and_without_its_content(
    streams: Deployment, make: Ingresses
) -> None:
    """One line in the log, however often it is met; it stays as it is."""
    ingress = make()
    await streams.redis.set(place(streams), "a secret")
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            with pytest.raises(Unavailable) as caught:
                await ingress.once(Work())
            assert "secret" not in caught.value.detail
    assert [line for line in lines if line["log_level"] == "error"] == [
        {"event": "idempotency.foreign_value", "log_level": "error"}
    ]
    assert await streams.redis.get(place(streams)) == b"a secret"
    assert ingress.outcomes == {"foreign": 3}


async def test_a_value_that_became_foreign_meanwhile_is_left_alone(
    streams: Deployment, make: Ingresses
) -> None:
    """Neither keeping an answer nor letting go of a claim stumbles over it."""
    ingress = make()
    for error in (None, QueueFull("full")):
        work = held()
        work.error = error
        await streams.redis.delete(place(streams))
        request = ingress.start(work)
        await work.begins()
        await streams.redis.delete(place(streams))
        await streams.redis.set(place(streams), "theirs")
        work.let_through()
        if error is None:
            assert await request == answer(work.seed)
        else:
            with pytest.raises(QueueFull):
                await request
        assert await streams.redis.get(place(streams)) == b"theirs"
    assert ingress.outcomes == {"unkept": 1, "failed": 1}
