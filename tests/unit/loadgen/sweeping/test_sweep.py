"""A sweep's course against a generator and a target that do as they are told."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from inferq.settings import Settings, load
from loadgen.generator.plan import Plan, due_s
from loadgen.generator.report import Report
from loadgen.sweeping.levels import SHARES
from loadgen.sweeping.sweep import Order, Sweep
from loadgen.sweeping.swept import Server, found
from loadgen.sweeping.target import Target
from tests.sweeps import latencies, report

CAPACITY = 100.0
SIMULATED, _ = load({}, {"model": "simulated:10,0", "batch_policy": "greedy", "max_batch_size": "1"})
WARM = {
    "layout": "1 x 1",
    "cost": {"tau0_ms": 10.0, "row_ms": 0.0, "token_ms": 0.0, "token_length_ms": 0.0},
    "margin": 0.02,
}


@dataclass(frozen=True, kw_only=True)
class Quiet(Target):
    """A target whose queue is empty as often as it is told, and always once nothing is told."""

    empty: list[bool] = field(default_factory=list)
    asked: list[float] = field(default_factory=list)

    async def drained(self, *, within_s: float) -> bool:
        """Return the next answer."""
        self.asked.append(within_s)
        return self.empty.pop(0) if self.empty else True


def quiet(
    settings: Settings | None = None, warm: Mapping[str, Any] = {}, *, empty: list[bool] | None = None
) -> Quiet:
    return Quiet(
        url="http://127.0.0.1:8080",
        server=Server(model="simulated:10,0", most_rows=1, lanes=1, batchers=1),
        settings=settings,
        warm=warm,
        empty=empty or [],
    )


class Generator:
    """Answers each plan as a server of `CAPACITY` would; ``invalid`` says so of the first runs, in turn."""

    def __init__(self, *invalid: list[str]) -> None:
        self.plans: list[Plan] = []
        self._invalid = list(invalid)

    async def __call__(self, plan: Plan) -> Report:
        self.plans.append(plan)
        rate, seconds = plan.schedule.rate, plan.schedule.seconds - plan.warm_s
        offered = round(rate * seconds)
        beyond = max(0, round((rate - CAPACITY) * seconds))
        ms = 20.0 if rate < 0.9 * CAPACITY else 60.0 if not beyond else 4000.0
        times = latencies(*[ms] * min(offered, 1000))
        return report(
            plan=plan,
            seconds=seconds,
            offered=offered,
            accepted=offered,
            statuses={"done": offered},
            stored=times,
            pushed=times,
            at_open=0,
            at_close=beyond,
            invalid=self._invalid.pop(0) if self._invalid else [],
        )


async def test_a_sweep_without_levels_finds_the_knee_by_itself() -> None:
    """It doubles the load until the server falls behind, and lays levels around what was done then."""
    generate, said = Generator(), list[str]()
    swept = await Sweep(quiet(), Order(), generate=generate, say=said.append).run()
    rates = [plan.schedule.rate for plan in generate.plans]
    assert rates[:4] == [20, 40, 80, 160]
    assert rates[4:] == [pytest.approx(share * CAPACITY) for share in SHARES]
    assert swept.capacity == pytest.approx(CAPACITY)
    assert found(swept).knee == pytest.approx(CAPACITY, rel=0.1)
    assert swept.whole
    assert said[-1].startswith("level 11 of 11")


async def test_a_fitted_cost_saves_the_search_and_gives_an_ideal() -> None:
    """The first try is at a little more than the cost says can be done."""
    generate = Generator()
    order = Order(shares=(0.2, 0.5), seconds=3.0)
    swept = await Sweep(quiet(SIMULATED, WARM), order, generate=generate, say=lambda _: None).run()
    assert generate.plans[0].schedule.rate == pytest.approx(130)
    assert len(generate.plans) == 3
    beside = swept.rows[0].beside
    assert beside is not None
    assert beside.ideal_p50_ms == pytest.approx(10, rel=0.3)
    assert swept.no_ideal == ""
    assert swept.no_closed_form == "there are no batches"


async def test_levels_are_as_long_as_the_knee_needs_unless_told() -> None:
    """Each has a warm-up before, other texts, and a patience that lets an overloaded one end."""
    generate = Generator()
    await Sweep(quiet(), Order(rates=(50, 100)), generate=generate, say=lambda _: None).run()
    assert [plan.schedule.seconds - plan.warm_s for plan in generate.plans] == [30, 30]
    assert [plan.seed for plan in generate.plans] == [0, 1]
    assert all(plan.schedule.kind == "poisson" and plan.inputs.distinct == 0 for plan in generate.plans)
    sent = [text for plan in generate.plans for text in plan.inputs.texts]
    assert len(sent) == len(set(sent)) == sum(len(due_s(plan.schedule, plan.seed)) for plan in generate.plans)
    short = Generator()
    await Sweep(quiet(), Order(rates=(50,), seconds=4, seed=7), generate=short, say=lambda _: None).run()
    assert short.plans[0].schedule.seconds == 5
    assert short.plans[0].seed == 7


async def test_the_queue_is_drained_before_each_level() -> None:
    """And a level that begins with what another one left says so."""
    target, said = quiet(empty=[True, False]), list[str]()
    await Sweep(target, Order(rates=(10, 20), seconds=2), generate=Generator(), say=said.append).run()
    assert len(target.asked) == 2
    assert "was not empty" in said[1]


async def test_an_invalid_level_is_run_once_more() -> None:
    """The better one of the two stays."""
    generate, said = Generator(["late"], []), list[str]()
    swept = await Sweep(quiet(), Order(rates=(10,), seconds=2), generate=generate, say=said.append).run()
    assert len(generate.plans) == 2
    assert swept.rows[0].invalid == []
    assert said[0] == "once more: late"
    worse = Generator(["late"], ["late", "short of CPU"])
    swept = await Sweep(quiet(), Order(rates=(10,), seconds=2), generate=worse, say=said.append).run()
    assert swept.rows[0].invalid == ["late"]


async def test_what_is_not_known_of_a_running_pipeline_is_said() -> None:
    """Its levels stand without an ideal."""
    swept = await Sweep(
        quiet(), Order(rates=(10,), seconds=2), generate=Generator(), say=lambda _: None
    ).run()
    assert swept.rows[0].beside is None
    assert "is not known" in swept.no_ideal
    assert "is not known" in swept.no_closed_form


async def test_several_batchers_have_no_ideal() -> None:
    """The simulator is of one."""
    several, _ = load({}, {"model": "simulated:10,0", "batchers": "2"})
    swept = await Sweep(
        quiet(several, WARM), Order(rates=(10,), seconds=2), generate=Generator(), say=lambda _: None
    ).run()
    assert "one batcher" in swept.no_ideal


async def test_a_sweep_that_breaks_off_keeps_its_levels() -> None:
    """What was measured before may have taken long."""
    generate = Generator()

    async def breaking(plan: Plan) -> Report:
        if len(generate.plans) == 2:
            raise ConnectionError("the server is gone")
        return await generate(plan)

    sweep = Sweep(quiet(), Order(rates=(10, 20, 30), seconds=2), generate=breaking, say=lambda _: None)
    with pytest.raises(ConnectionError):
        await sweep.run()
    assert [row.level for row in sweep.swept().rows] == [10, 20]
    assert not sweep.swept().whole
