"""What becomes of a delivery: an item, a refusal, or a job whose answer is known."""

from itertools import count
from math import inf
from typing import Any, Final

import msgspec
import pytest

from batcher.cache import ResultCache
from batcher.engine import Engine
from batcher.intake import Found, Intake, Refusal
from batcher.item import Item
from batcher.shapes import EXACT, Shapes, few
from batcher.tally import Tally
from batcher.texttask import TextTask
from batcher.tokenizer import InputRefused, SimulatedTokenizer
from batcher.wire import Load
from inferq.cachekey import cache_key
from inferq.jobs import ErrorCode, Job, Priority, Result
from inferq.messages import Delivery, encode_job
from inferq.steps import Origin
from inferq.telemetry import Metrics

NOW_MS: Final = 1_000_000.0
# It is not run here.
IDLE: Final = Engine(Load(spec="simulated:1,1", folder=None, device="cpu", precision="fp32"), pad_id=0)
RESULT: Final = Result(label="A", score=1.0, scores={"A": 1.0}, truncated=False)


@pytest.fixture(autouse=True)
def wall(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wall's clock stands still."""
    monkeypatch.setattr("batcher.intake.wall_ms", lambda: NOW_MS)


def make(*, cache: ResultCache | None = None, slo_ms: int = 200, shapes: Shapes = EXACT) -> Intake:
    """An intake whose own clock says 100 s, then 2 ms more at each look."""
    ticks = count()
    return Intake(
        task=TextTask(IDLE, SimulatedTokenizer(faults=True), ("NEGATIVE", "POSITIVE")),
        tally=Tally(Metrics()),
        cache=cache,
        model_digest="d",
        precision="fp32",
        slo_ms=slo_ms,
        clock=lambda: 100.0 + 0.002 * next(ticks),
        shapes=shapes,
    )


def delivery(text: str = "two words", **fields: Any) -> Delivery:
    """A message of a job that was accepted 50 ms ago."""
    job = Job(job_id="a" * 32, model="m", text=text, **{"created_ms": int(NOW_MS) - 50, **fields})
    return Delivery(queue="q", body=encode_job(job), redelivered=False, token=b"1")


def admitted(intake: Intake, one: Delivery) -> Item | Found | Refusal:
    """Read and admit."""
    origin = intake.read(one)
    assert isinstance(origin, Origin)
    return intake.admit(one, origin)


def test_a_job_becomes_an_item_with_its_tokens_and_times() -> None:
    """Its budget counts from acceptance, on the loop's clock; without a deadline it is never due."""
    one = delivery()
    item = admitted(make(), one)
    assert isinstance(item, Item)
    assert item.length == len(item.ids) == 2
    assert not item.truncated
    assert item.deliveries == [one]
    assert item.interactive
    assert (item.arrived_s, item.arrived_ms) == (100.0, NOW_MS)
    assert item.budget_s == pytest.approx(100.0 - 0.05 + 0.2)
    assert item.due_s == inf
    assert item.tokenize_ms == pytest.approx(2.0)
    assert item.key is None


def test_a_deadline_bounds_the_budget() -> None:
    """It is due at its deadline, and should be done by then at the latest."""
    item = admitted(make(slo_ms=60_000), delivery(deadline_ms=int(NOW_MS) + 500))
    assert isinstance(item, Item)
    assert item.due_s == item.budget_s == pytest.approx(100.5)
    late = admitted(make(), delivery(deadline_ms=int(NOW_MS) - 500))
    assert isinstance(late, Item)
    assert late.due_s == pytest.approx(99.5)


def test_a_clock_that_goes_wrong_gives_no_job_more_than_its_budget() -> None:
    """A job from the future counts as accepted now."""
    item = admitted(make(), delivery(created_ms=int(NOW_MS) + 5000, priority=Priority.BULK))
    assert isinstance(item, Item)
    assert item.budget_s == pytest.approx(100.2)
    assert not item.interactive


def test_what_cannot_be_read_is_refused() -> None:
    """The reason says what is wrong, and there is no job to rebuild."""
    refusal = make().read(Delivery(queue="q", body=b"\xff", redelivered=False, token=b"1"))
    assert isinstance(refusal, Refusal)
    assert refusal.code is ErrorCode.UNDECODABLE
    assert refusal.origin is None
    assert refusal.reason


def test_what_the_model_cannot_take_is_refused() -> None:
    """With the tokenizer's reason, and the job that it was."""
    refusal = admitted(make(), delivery("[[refuse]]"))
    assert isinstance(refusal, Refusal)
    assert refusal.code is ErrorCode.INVALID_INPUT
    assert refusal.origin is not None
    assert refusal.reason == "the text orders a refusal"


def test_a_known_answer_is_found_before_anything_is_tokenised() -> None:
    """Where the job allows it; the item has no tokens and took no time."""
    cache = ResultCache(10)
    key = cache_key(model_digest="d", precision="fp32", text="two words")
    intake = make(cache=cache)
    missed = admitted(intake, delivery())
    assert isinstance(missed, Item)
    assert missed.key == key
    cache.put(key, RESULT)
    found = admitted(intake, delivery())
    assert isinstance(found, Found)
    assert found.result == RESULT
    assert found.item.tokenize_ms == 0
    assert list(found.item.ids) == []
    assert (cache.hits, cache.misses) == (1, 1)


def test_a_job_that_wants_to_be_run_is_not_looked_up() -> None:
    """It has no key, so that it has no equal either, and counts for no lookup."""
    cache = ResultCache(10)
    cache.put(cache_key(model_digest="d", precision="fp32", text="two words"), RESULT)
    item = admitted(make(cache=cache), delivery(cache=False))
    assert isinstance(item, Item)
    assert item.key is None
    assert (cache.hits, cache.misses) == (0, 0)


def test_on_a_device_with_few_shapes_a_job_has_its_padded_length() -> None:
    """Its tokens are those that it has."""
    item = admitted(make(shapes=few(max_rows=4, max_length=64)), delivery("one " * 9))
    assert isinstance(item, Item)
    assert (item.length, len(item.ids)) == (12, 9)


def test_a_job_past_the_queue_is_an_item_without_messages() -> None:
    """It has somebody to tell; a kept answer is found for it too, and what cannot be read is refused at once."""
    cache = ResultCache(10)
    intake = make(cache=cache)
    told: list[Any] = []
    job = Job(
        job_id="a" * 32, model="m", text="two words", created_ms=int(NOW_MS), deadline_ms=int(NOW_MS) + 500
    )
    item = intake.admit_direct(job, told.append)
    assert isinstance(item, Item)
    assert (item.deliveries, item.origin.queue, len(item.ids)) == ([], "", 2)
    assert item.due_s - item.arrived_s == pytest.approx(0.5, abs=0.01)
    assert item.key is not None
    cache.put(item.key, RESULT)
    found = intake.admit_direct(job, told.append)
    assert isinstance(found, Found)
    assert found.item.tell is not None
    with pytest.raises(InputRefused):
        intake.admit_direct(msgspec.structs.replace(job, text="[[refuse]]"), told.append)
    assert told == []
