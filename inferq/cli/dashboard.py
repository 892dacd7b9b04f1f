"""The picture of `inferq stats --watch`: statistics in, something that rich can print out. Pure.

Nothing is ever wrapped: what does not fit the width is cut, the least telling first. 80 columns show everything.
"""

from collections.abc import Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from inferq.cli.headway import duration
from inferq.cli.history import Batches, Found, History, by_doubling, sparkline
from inferq.cli.plain import printable
from inferq.plurals import counted

LEAST_WIDTH: Final = 40
TWO_HALVES_WIDTH: Final = 76
MOST_WIDTH: Final = 120
MOST_BATCHERS: Final = 16
_GAP: Final = 2
_LABEL_WIDTH: Final = 13
_FIGURE_WIDTH: Final = 11
_BAR: Final = "█"
_TIMES: Final = (("queue wait", "queue_wait"), ("inference", "inference"), ("total", "total"))
_SHARES: Final = ("p50", "p90", "p99")


def render(history: History, *, width: int, place: str, clock: str, trouble: str = "") -> RenderableType:
    """Return the picture for a terminal ``width`` columns wide; ``trouble`` says why there is nothing newer."""
    width = max(LEAST_WIDTH, min(width, MOST_WIDTH))
    found = history.latest
    head = [_line([(printable(place), "bold")], clock, width)]
    if trouble:
        head.append(_cut(Text(printable(trouble), style="red"), width))
    if found is None:
        return Group(*head)
    batches, blank = history.batches(), Text()
    return Group(
        *head, blank, *_queue(history, found, width), blank, _middle(found, batches, width), blank,
        *_counts(found, batches, width), blank, *_batchers(found, width),
    )  # fmt: skip  # from top to bottom


def line(found: Found, clock: str) -> str:
    """Return the statistics as one plain line, for where nobody watches."""
    queue, total = found["queue"], found.get("latency_ms", {}).get("total", {})
    return (
        f"{clock}  {queue['depth']} waiting, {queue['dead']} dead, {queue['arrival_rate']:.1f}/s in,"
        f" {queue['drain_rate']:.1f}/s out, total p50 {_time(total.get('p50'))} ms, p99 {_time(total.get('p99'))} ms,"
        f" {counted(len(found['batchers']), 'batcher')}"
    )


def breakers(found: Found) -> str:
    """Return what is to be said of the circuit breakers; nothing when all are closed."""
    return ", ".join(
        f"{one['name']} of {one['node']} is {one['state'].replace('_', '-')}"
        + (f" for {one['half_open_in_s']:.0f} s" if one["half_open_in_s"] else "")
        for one in found.get("breakers", [])
        if one["state"] != "closed"
    )


def unowned(found: Found) -> str:
    """Return what is to be said of shards that no batcher has; nothing when there are none."""
    routing = found.get("routing", {})
    shards = routing.get("unowned", [])
    return f"{len(shards)} of {routing['shards']} are nobody's: their jobs wait" if shards else ""


def _queue(history: History, found: Found, width: int) -> list[Text]:
    queue = found["queue"]
    rows = [
        ("waiting", f"{queue['depth']:,}", "depth", "cyan"),
        ("arrival/s", f"{queue['arrival_rate']:,.1f}", "arrival_rate", "green"),
        ("drain/s", f"{queue['drain_rate']:,.1f}", "drain_rate", "blue"),
    ]
    span = f"last {duration(history.span_s)}"
    room = width - _LABEL_WIDTH - _FIGURE_WIDTH - _GAP
    lines = [
        _cut(
            Text.assemble(
                f"{title:<{_LABEL_WIDTH}}", (f"{figure:>{_FIGURE_WIDTH}}", "bold"), " " * _GAP,
                (sparkline(history.course(name), room), colour),
            ),
            width,
        )
        for title, figure, name, colour in rows
    ]  # fmt: skip  # one line of text in one line
    dead = queue["dead"]
    figure = (f"{dead:>{_FIGURE_WIDTH},}", "bold red" if dead else "bold")
    return [*lines, _line([f"{'dead letters':<{_LABEL_WIDTH}}", figure], span, width)]


def _middle(found: Found, batches: Batches, width: int) -> RenderableType:
    if width < TWO_HALVES_WIDTH:
        return Group(*_latency(found, width), Text(), *_sizes(batches, width))
    halves = Table.grid(padding=0, expand=False)
    left, right = width // 2, width - width // 2 - _GAP
    halves.add_column(width=left, no_wrap=True)
    halves.add_column(width=_GAP)
    halves.add_column(width=right, no_wrap=True)
    halves.add_row(Group(*_latency(found, left)), Text(), Group(*_sizes(batches, right)))
    return halves


def _latency(found: Found, width: int) -> list[Text]:
    figures = found.get("latency_ms", {})
    each = (width - _LABEL_WIDTH) // len(_SHARES)
    lines = [
        _cut(
            Text(
                f"{'ms, last 10 s':<{_LABEL_WIDTH}}" + "".join(f"{share:>{each}}" for share in _SHARES), "dim"
            ),
            width,
        )
    ]
    for title, name in _TIMES:
        times = figures.get(name, {})
        cells = "".join(f"{_time(times.get(share)):>{each}}" for share in _SHARES)
        lines.append(_cut(Text(f"{title:<{_LABEL_WIDTH}}{cells}"), width))
    return lines


def _sizes(batches: Batches, width: int) -> list[Text]:
    over = f"last {duration(batches.over_s)}" if batches.over_s else "since the start"
    lines = [_line([("batch sizes", "dim")], over, width)]
    rows = by_doubling(batches.sizes)
    most = max((count for _, count in rows), default=0)
    room = width - 8 - 9
    for title, count in rows:
        filled = _BAR * max(1 if count else 0, round(count / most * room))
        lines.append(
            _cut(Text.assemble(f"{title:>7} ", (f"{filled:<{room}}", "cyan"), f"{count:>9,}"), width)
        )
    if not rows:
        lines.append(_cut(Text("none ran"), width))
    return lines


def _counts(found: Found, batches: Batches, width: int) -> list[Text]:
    reasons = sorted(batches.reasons.items(), key=lambda item: -item[1])
    padding = batches.padding
    totals, cache = found["batches"], found["cache"]
    mishaps = (
        f"{counted(totals['splits'], 'split', form=',')},"
        f" {counted(totals['engine_restarts'], 'engine restart', form=',')},"
        f" {totals['expired']:,} expired, {counted(cache['hits'], 'same input', form=',')}"
    )
    rows = [
        ("closed by", ", ".join(f"{name} {count:,}" for name, count in reasons) or "-"),
        ("padding", "-" if padding is None else f"{padding:.1%} of the tokens"),
        ("since start", mishaps),
    ]
    lines = [_cut(Text(f"{title:<{_LABEL_WIDTH}}{shown}"), width) for title, shown in rows]
    for title, trouble in (("breakers", breakers(found)), ("shards", unowned(found))):
        if trouble:
            told = Text(f"{title:<{_LABEL_WIDTH}}{printable(trouble)}", style="red")
            lines.append(_cut(told, width))
    return lines


def _batchers(found: Found, width: int) -> list[Text]:
    batchers: Sequence[dict[str, Any]] = found["batchers"]
    if not batchers:
        return [Text("no batcher is alive", style="red")]
    hashed = found.get("routing", {}).get("routing") == "hash"
    columns = ["batcher", "state", *(["shards"] if hashed else []), "device", "model"]
    rows = [
        [printable(cell) for cell in (
            str(entry["id"]), str(entry["state"]), *([str(len(entry["shards"]))] if hashed else []),
            str(entry["device"]), str(entry["model"]),
        )] for entry in batchers
    ]  # fmt: skip  # as the columns
    widths = [min(24, max(len(name), *(len(cells[at]) for cells in rows))) for at, name in enumerate(columns)]

    def shown(cells: Sequence[str], progress: str) -> str:
        return (" " * _GAP).join([
            *(f"{cell[:size]:<{size}}" for cell, size in zip(cells, widths, strict=True)), progress,
        ])  # fmt: skip  # the cells, then the rest

    lines = [_cut(Text(shown(columns, "last progress"), style="dim"), width)]
    for entry, cells in list(zip(batchers, rows, strict=True))[:MOST_BATCHERS]:
        progress = f"{entry['last_progress_s']:.1f} s ago"
        lines.append(_cut(Text(shown(cells, progress), _colour(entry)), width))
    if len(rows) > MOST_BATCHERS:
        lines.append(Text(f"and {len(rows) - MOST_BATCHERS} more"))
    return lines


def _colour(entry: dict[str, Any]) -> str:
    return "yellow" if entry["state"] in {"loading", "restarting", "resting"} else ""


def _time(value_ms: float | None) -> str:
    """Return milliseconds in five characters or so."""
    if value_ms is None:
        return "-"
    return f"{value_ms:.1f}" if value_ms < 1_000 else f"{value_ms:,.0f}"


def _line(parts: Sequence[str | tuple[str, str]], right: str, width: int) -> Text:
    """Return a line with something at its right end."""
    left = _cut(Text.assemble(*parts), width - len(right) - 1)
    return Text.assemble(left, " " * (width - left.cell_len - len(right)), (right, "dim"))


def _cut(text: Text, width: int) -> Text:
    text.truncate(width, overflow="ellipsis")
    text.no_wrap = True
    return text
