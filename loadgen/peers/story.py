"""The report of peers: tables, figures, and words that are fair. Pure.

1. Where a peer is better, that is said as plainly as where ours is.
2. What each peer does not promise stands beside what it does, since speed without a promise is another product.
3. A peer that could not be measured is named with the reason.
"""

import statistics
from collections.abc import Mapping, Sequence

from loadgen.figures import Figure
from loadgen.peers.judging import best_at, best_saturated, judged
from loadgen.peers.roster import COMMON_LACKS, PEERS, Peer
from loadgen.peers.rounds import SHARES, Outcome
from loadgen.reports.charts import Axis, Panel, Series, chart
from loadgen.reports.document import Lines, Part, Picture, Section, Table

ASKED = (
    "Ours beside other servers on one machine: the same ONNX file, tokenizer, truncation and texts, at most 16 a"
    " batch, as many threads as the machine has cores: those of a peer's one worker, or shared out where the command"
    " says `--workers`. A peer's threads do not spin for their next work unless the command says `--spin`, since on"
    " few cores they take one that a front needs. Each arm is started anew in each round, its answers are compared"
    " with the bare model's, and it gets the same Poisson arrivals as all others, from one generator over 256"
    " connections, at shares of what the best simple bare ONNX Runtime loop does: one that knows no lengths, since"
    " no peer does.",
    "What ours does with the same file, and peers leave to the code that one writes for them: it chooses batches of"
    " like length by a cost that it measures at its start, runs several batches at a time on a thread each or one on"
    " all, whichever it finds faster, and leaves out what the last layer computes for tokens that nobody reads. So a"
    " difference in throughput is in part one of such code, which a peer could have behind it as well.",
    "Saturation is a closed loop of 128 connections, eight full batches, with ours as with peers: ours is asked to"
    " answer with the result (`Prefer: wait`). It comes first in each round and warms a server up. At the levels"
    " times count from when a request was due: a peer's to its HTTP answer, ours to the pushed frame of a job whose"
    " record was stored and whose message a durable queue had confirmed before. All processes of an arm, its broker"
    " and the generator share the machine's cores.",
)


def sections(outcomes: Sequence[Outcome], versions: Mapping[str, Mapping[str, str]]) -> list[Section]:
    """Return the report's sections; ``versions`` are of each peer's distributions."""
    found = []
    for outcome in outcomes:
        found.append(Section(title=f"The {outcome.kind} model", parts=_measured(outcome)))
        found.append(
            Section(title=f"The {outcome.kind} model: what it shows", parts=["\n".join(shown(outcome))])
        )
    found.append(Section(title="How each is set up", parts=[_setups(versions)]))
    found.append(Section(title="What a peer does not promise", parts=["\n".join(_promises())]))
    return found


def shown(outcome: Outcome) -> list[str]:
    """Return what the figures say, one item a line, where peers are better as well."""
    found = [f"- {_bare(outcome)}"]
    found += [f"- At {share:.0%}: {_at(outcome, share)}" for share in SHARES]
    found.append(f"- At saturation: {_saturated(outcome)}")
    for name, reason in outcome.failed().items():
        found.append(f"- {_title(name)} could not be measured: {reason}")
    found += _few(outcome)
    for name in outcome.names():
        if lost := outcome.errors(name):
            found.append(
                f"- {_title(name)} left {lost} requests without an answer at levels that it kept up with."
            )
        if doubtful := outcome.invalid(name):
            found.append(
                f"- {doubtful} runs of {_title(name)} are doubtful: the generator was late or short of CPU, or"
                " something else used the machine."
            )
    return found


def table(outcome: Outcome) -> Table:
    """Return p50 and p99 of all arms at all levels, and throughput."""
    head = [
        "",
        *(f"{share:.0%}: p50 / p99, ms" for share in SHARES),
        "saturation, requests/s",
        "CPU each, ms",
    ]
    rows = []
    for name in outcome.names():
        times = [_times(outcome, name, share) for share in SHARES]
        cpu = outcome.cpu_ms(name, SHARES[0])
        rows.append([_title(name), *times, _short(outcome.throughput(name)), _short(cpu)])
    return Table(head=head, rows=rows)


def _measured(outcome: Outcome) -> list[Part]:
    figures: list[Figure] = judged(outcome)
    return [
        f"Bare loop: {outcome.loop}, {_short(outcome.rate)} texts/s. Rounds: {len(outcome.rounds)}; times are of all"
        " their requests together, in which the arm kept up; saturation is their median. CPU is of all processes of an"
        f" arm, for a request at {SHARES[0]:.0%}. A dash: it does not keep up, so that times grow with the length of"
        " the run; higher levels, and those far above saturation, are left out.",
        table(outcome),
        Lines(lines=[figure.line() for figure in figures]),
        Picture(
            name=f"{outcome.kind}-p99",
            svg=_picture(outcome),
            about=f"p99 by load with the {outcome.kind} model, of ours and of each peer",
        ),
    ]


def _picture(outcome: Outcome) -> str:
    series = [
        Series(
            name=_title(name),
            points=[
                (100 * share, outcome.p99_ms(name, share)) for share in SHARES if outcome.kept_up(name, share)
            ],
            kind="line and dots",
        )
        for name in outcome.names()
    ]
    panel = Panel(
        title="p99",
        x=Axis(label="load, % of the bare loop", least=100.0),
        y=Axis(label="due to answer, ms", scale="log"),
        series=series,
    )
    return chart(
        f"Ours beside peers, {outcome.kind} model", "All rounds; lower is better", [panel], width=820
    )


def _few(outcome: Outcome) -> list[str]:
    """Return, by level, how many requests a p99 is of, and how far the rounds by themselves are apart."""
    found = []
    for share in SHARES:
        there = [name for name in outcome.names() if outcome.kept_up(name, share)]
        if not there:
            continue
        fewest = min(outcome.latencies(name, share).count for name in there)
        line = f"- At {share:.0%} a p99 is of {fewest:,} requests"
        if len(outcome.rounds) > 1:
            spread = (f"{_title(name)} {_range(outcome.p99s_ms(name, share))}" for name in there)
            line += f"; round by round it is, in ms: {', '.join(spread)}"
        found.append(f"{line}.")
    return found


def _range(values: Sequence[float]) -> str:
    return f"{_short(min(values))} to {_short(max(values))}"


def _bare(outcome: Outcome) -> str:
    every = []
    for name in outcome.rounds[0].bare:
        rates = [one.bare[name] for one in outcome.rounds]
        spread = f" ({_range(rates)})" if len(rates) > 1 else ""
        every.append(f"{name} {_short(statistics.median(rates))}{spread}")
    words = f"Bare loops do, in texts/s: {', '.join(every)}."
    return f"{words} Where they differ much between rounds, the machine was not idle."


def _at(outcome: Outcome, share: float) -> str:
    there = [name for name in outcome.names() if outcome.kept_up(name, share)]
    if not there:
        return "no arm keeps up."
    ranked = sorted(there, key=lambda name: outcome.p99_ms(name, share))
    order = ", ".join(f"{_title(name)} {_short(outcome.p99_ms(name, share))}" for name in ranked)
    behind = [name for name in outcome.names() if name not in there]
    words = f"p99 in ms from the best on: {order}."
    if behind:
        words += f" Not keeping up: {', '.join(map(_title, behind))}."
    best = best_at(outcome, share)
    if best is not None:
        better = [
            name for name in outcome.ours() if name not in there or ranked.index(best) < ranked.index(name)
        ]
        if better:
            words += f" {_title(best)} is better than {' and '.join(better)}."
    return words


def _saturated(outcome: Outcome) -> str:
    ranked = sorted(outcome.names(), key=outcome.throughput, reverse=True)
    order = ", ".join(f"{_title(name)} {_short(outcome.throughput(name))}" for name in ranked)
    best = best_saturated(outcome)
    words = f"requests a second from the best on: {order}."
    if best is not None:
        better = [name for name in outcome.ours() if outcome.throughput(name) < outcome.throughput(best)]
        if better:
            words += f" {_title(best)} does more than {' and '.join(better)}."
    return words


def _setups(versions: Mapping[str, Mapping[str, str]]) -> Table:
    rows = [["ours", "this commit", "every setting as by default, cache off, one batcher, one ingress"]]
    for peer in PEERS.values():
        known = versions.get(peer.name, {})
        told = ", ".join(f"{name} {known.get(name, 'not installed')}" for name in peer.distributions)
        rows.append([peer.title, told, peer.settings])
    return Table(head=["", "versions", "settings, and why"], rows=rows)


def _promises() -> list[str]:
    return [
        f"- All of them, as set up here: {COMMON_LACKS}.",
        *(f"- {peer.title}: {peer.lacks}." for peer in PEERS.values()),
        "- What ours does not do: it answers no request in its own HTTP response unless asked to wait, and needs a"
        " Redis and, but for Redis Streams, a broker beside it. A peer is one process to run, and Ray Serve and BentoML"
        " spread over machines and models in ways that ours does not try to.",
    ]


def _times(outcome: Outcome, name: str, share: float) -> str:
    if not outcome.kept_up(name, share):
        return "-"
    p50 = outcome.p50_ms(name, share)
    return f"{_short(p50)} / {_short(outcome.p99_ms(name, share))}"


def _title(name: str) -> str:
    peer: Peer | None = PEERS.get(name)
    return name if peer is None else peer.title


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.{1 if abs(value) >= 10 else 2}f}"
