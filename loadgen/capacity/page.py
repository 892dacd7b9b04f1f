"""The page about capacity, in Markdown, from measured costs. Pure: equal costs, equal page.

Every figure on it comes from the costs, by the arithmetic of `loadgen.capacity.sizing`; what is said whatever the
figures are stands in `loadgen.capacity.pagewords`.
"""

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from loadgen.capacity.costs import BATCHER, INGRESS, NOTIFIER, RABBITMQ, VALKEY, Costs, JobCosts
from loadgen.capacity.pagewords import (
    BROKERS,
    COMMANDS,
    FORKS,
    GROWS,
    METHOD,
    NOT_YET,
    SHARDING,
    TITLES,
    TTL,
    WHY,
)
from loadgen.capacity.sizing import (
    GIB,
    HOST_CORES,
    SOCKETS_A_NOTIFIER,
    USED_SHARE,
    Need,
    Sized,
    bounds,
    per_core,
    pushing_us,
    sized,
    sockets_gib,
)

LOADS: Final = (10_000.0, 1_000_000.0)
RESULT_TTL_S: Final = 3_600.0
SHORT_TTL_S: Final = 60.0
SOCKETS: Final = 1_000_000
WAITING_JOBS: Final = 1_000_000
COMPONENTS: Final = (INGRESS, VALKEY, RABBITMQ, BATCHER, NOTIFIER)
WIDTH: Final = 130
NOTHING: Final = "none"
_Row = tuple[str, Callable[[JobCosts], str]]
DETAILS: Final[tuple[_Row, ...]] = (
    ("a notifier, for a job that it only hears of", lambda one: f"{_us(one.cpu_us.get(NOTIFIER, 0.0))} µs"),
    ("a notifier, for a job that it pushes, beyond hearing of it", lambda one: f"{_us(pushing_us(one))} µs"),
    ("a notifier, for a job with a webhook", lambda one: f"{_us(one.webhook_us.get(NOTIFIER, 0.0))} µs"),
    ("a record that has ended, in Redis", lambda one: f"{_whole(one.record_bytes)} bytes"),
    ("a job that waits, in Redis", lambda one: f"{_whole(one.waiting_bytes)} bytes"),
    ("written to Redis's append-only file", lambda one: f"{_whole(one.written_bytes)} bytes"),
    ("on the network, without a follower", lambda one: f"{_whole(one.network_bytes)} bytes"),
    ("on the network, for a follower", lambda one: f"{_whole(one.pushed_bytes)} bytes"),
    ("jobs a batch", lambda one: f"{one.mean_batch:.1f}"),
)


def page(costs: Costs) -> str:
    """Return the page."""
    parts = [
        *_head(costs),
        *_measured(costs),
        "## What to add, and when",
        _table(["component", "grows by", "when", "in this release"], SHARDING),
        *_bounds(costs),
        *(part for jobs_per_s in LOADS for part in _worked(costs, jobs_per_s)),
        *_memory(costs),
        "## What cannot be built with this release",
        _listed(NOT_YET),
    ]
    return "\n\n".join(parts) + "\n"


def _head(costs: Costs) -> Iterable[str]:
    yield "# Capacity"
    yield COMMANDS
    rates = ", ".join(f"{_whole(one.rate)} jobs/s on {BROKERS[one.broker]}" for one in costs.jobs)
    yield _filled(
        "What a load needs, by arithmetic from what a job was measured to cost. Nobody ran a million jobs a"
        " second: this page"
        " says what would be needed if each cost what it costs here, and which limit would come first. Measured"
        f" {costs.at} on {costs.machine}; {costs.programs}. All processes, clients too, shared its cores, at"
        f" {rates}; a text"
        f" had {costs.text_bytes:.0f} bytes on average."
    )
    plans = f"Plans fill a core to {USED_SHARE:.0%} at most, and hosts have {HOST_CORES} cores."
    yield _listed([*METHOD, plans])


def _measured(costs: Costs) -> Iterable[str]:
    names = [name for name in COMPONENTS if any(one.of(name) for one in costs.jobs)]
    rows = [[TITLES[name], *(_carried(one.of(name)) for one in costs.jobs)] for name in names]
    rows.append(["all of these", *(f"{_us(sum(map(one.of, names)))} µs" for one in costs.jobs)])
    rows += [[title, *map(shown, costs.jobs)] for title, shown in DETAILS]
    yield "## What a job costs"
    yield _filled(
        f"CPU of a job that one client follows, what a core filled to {USED_SHARE:.0%} carries, and what else a"
        f" job takes:"
    )
    yield _table(["", *_brokers(costs)], rows)
    yield _filled(
        f"A socket that waits for nothing takes {costs.socket_kib:.2f} KiB of the notifier's memory. Jobs with a"
        f" webhook came"
        " at a quarter of the rate, where everything costs a job more."
    )
    yield _table(
        ["engine, by model", "a job, and what a core carries", "jobs a batch"],
        [[one.model, _carried(one.cpu_us), f"{one.mean_batch:.1f}"] for one in costs.engines],
    )


def _bounds(costs: Costs) -> Iterable[str]:
    yield "## Which limit comes first"
    yield GROWS
    lines = []
    for one in costs.jobs:
        first, *others = bounds(one)
        then = "; ".join(f"then {_whole(bound.per_s)}/s, by {WHY[bound.name]}" for bound in others)
        lines.append(
            f"**{BROKERS[one.broker]}**: {_whole(first.per_s)} jobs/s, by {WHY[first.name]}; {then}."
        )
    yield _listed(lines)
    rates = sorted({_whole(one.rate) for one in costs.jobs})
    yield _filled(
        f"All of these follow from the costs at {' and '.join(rates)} jobs/s, and none was run into. A job costs less"
        " when more are under way, so one deployment carries rather more than this, and the deployments and cores that"
        " follow are rather too many; only a run at such a rate tells how many."
    )


def _worked(costs: Costs, jobs_per_s: float) -> Iterable[str]:
    plans = [
        sized(one, costs.engines, jobs_per_s=jobs_per_s, result_ttl_s=RESULT_TTL_S) for one in costs.jobs
    ]
    names = [name for name in COMPONENTS if any(need.name == name for plan in plans for need in plan.needs)]
    rows = [
        ["deployments", *(_whole(plan.deployments) for plan in plans)],
        *([TITLES[name], *(_cores(plan.needs, name) for plan in plans)] for name in names),
        *(
            [f"engines, {engine.model}", *(_cores(plan.engines, engine.model) for plan in plans)]
            for engine in costs.engines
        ),
        ["network, all links together", *(f"{_rate(plan.network_gbit_s)} Gbit/s" for plan in plans)],
        ["written by Redis", *(f"{_whole(plan.written_mb_s)} MB/s" for plan in plans)],
        [
            f"Redis memory, results kept {_whole(RESULT_TTL_S)} s",
            *(f"{_whole(plan.redis_gib)} GiB, {_rate(plan.instance_gib)} each" for plan in plans),
        ],
    ]
    yield f"## {_whole(jobs_per_s)} jobs a second"
    yield _table(["", *_brokers(costs)], rows)
    yield _listed(_said(one, plan) for one, plan in zip(costs.jobs, plans, strict=True))


def _said(one: JobCosts, plan: Sized) -> str:
    serving = sum(need.cores for need in plan.needs)
    words = [f"**{BROKERS[one.broker]}**: {_whole(serving)} cores beside the engines"]
    for engine in plan.engines:
        share = engine.cores / (engine.cores + serving)
        words.append(f"with {engine.name} the engines have {share:.0%} of all cores")
    if plan.deployments == 1:
        words.append("one deployment carries it")
    else:
        words.append(
            f"one deployment carries {_whole(bounds(one)[0].per_s)}/s, so {_whole(plan.deployments)} stand side"
            f" by side and"
            " have to be run and addressed by hand"
        )
    return "; ".join(words) + "."


def _memory(costs: Costs) -> Iterable[str]:
    notifiers, gib = sockets_gib(costs.socket_kib, SOCKETS)
    yield "## Memory"
    yield _filled(f"{TTL} Kept for {_whole(SHORT_TTL_S)} s:")
    rows = []
    for one in costs.jobs:
        plans = [sized(one, [], jobs_per_s=load, result_ttl_s=SHORT_TTL_S) for load in LOADS]
        waiting = f"{_rate(one.waiting_bytes * WAITING_JOBS / GIB)} GiB"
        rows.append([BROKERS[one.broker], *(f"{_rate(plan.redis_gib)} GiB" for plan in plans), waiting])
    yield _table(
        ["in Redis", *(f"records at {_whole(load)}/s" for load in LOADS), "a million jobs that wait"], rows
    )
    yield _filled(FORKS)
    yield _filled(
        f"A million open sockets take {_whole(notifiers)} notifiers, each of which takes"
        f" {_whole(SOCKETS_A_NOTIFIER)}, and"
        f" {gib:.1f} GiB of memory in all, besides what the system keeps for each."
    )


def _brokers(costs: Costs) -> list[str]:
    return [BROKERS[one.broker] for one in costs.jobs]


def _carried(us: float) -> str:
    return f"{_us(us)} µs, {_rate(per_core(us))} jobs/s" if us else NOTHING


def _cores(needs: Iterable[Need], name: str) -> str:
    need = next((need for need in needs if need.name == name), None)
    if need is None:
        return NOTHING
    hosts = f", {_whole(need.hosts)} hosts" if need.hosts > 1 else ""
    return f"{_whole(need.cores)} {'core' if need.cores == 1 else 'cores'}{hosts}"


def _filled(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _listed(texts: Iterable[str]) -> str:
    return "\n".join(
        textwrap.fill(
            text,
            WIDTH,
            initial_indent="- ",
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for text in texts
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _us(value: float) -> str:
    return _whole(value) if value >= 10 else f"{value:.1f}"


def _rate(value: float) -> str:
    return _whole(value) if value >= 100 else f"{value:.1f}"


def _whole(value: float) -> str:
    return "without end" if math.isinf(value) else f"{value:,.0f}"
