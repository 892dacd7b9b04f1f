"""`inferq stats`: the queue, the batchers and their batches, now or as they go."""

import asyncio
import sys
import time
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.live import Live

from inferq.cli.dashboard import breakers, line, render
from inferq.cli.deployment import Endpoint, endpoint
from inferq.cli.flags import Json, KeyFile, State, Url
from inferq.cli.history import History
from inferq.cli.outcomes import encoded
from inferq.cli.printing import printer
from inferq.cli.running import INTERRUPTED
from inferq.cli.terminal import output, row, run, table
from inferq.plurals import counted


def stats(
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", help="show them anew until Ctrl-C: a picture on a terminal, else a line each"
        ),
    ] = False,
    interval_s: Annotated[
        float, typer.Option("--interval-s", min=0.1, max=3600.0, metavar="S", help="how often, with --watch")
    ] = 1.0,
    url: Url = None,
    json: Json = False,
    state: State = None,
    key_file: KeyFile = None,
) -> None:
    """Show how many jobs wait, how fast they come and go, and what the batchers do."""
    place = endpoint(url, state, key_file)
    try:
        code = run(_watch(place, interval_s, as_json=json) if watch else _stats(place, as_json=json))
    except KeyboardInterrupt:
        # Which is how a watch ends.
        code = 0 if watch else INTERRUPTED
    except BrokenPipeError:
        code = 1
    raise typer.Exit(code)


async def _stats(place: Endpoint, *, as_json: bool) -> int:
    from inferq.cli.calls import connected

    async with connected(place) as client:
        found = await client.stats()
    if as_json:
        typer.echo(encoded(found))
    else:
        _print(found)
    return 0


async def _watch(place: Endpoint, interval_s: float, *, as_json: bool) -> int:
    from inferq import ClientError, KeyRefused
    from inferq.cli.calls import connected

    console = output()
    picture = console.is_terminal and not as_json
    history, trouble = History(), ""
    # Above the cursor, so that the last picture stays when it ends.
    live = Live(console=console, auto_refresh=False, vertical_overflow="crop") if picture else nullcontext()
    async with connected(place) as client:
        with printer(None) as lines, live as shown:
            next_s = time.monotonic()
            while True:
                clock, found = f"{datetime.now(UTC):%H:%M:%S} UTC", None
                try:
                    found, trouble = await client.stats(), ""
                    history.add(time.monotonic(), found)
                except KeyRefused:
                    raise
                except ClientError as error:
                    trouble = str(error)
                if shown is not None:
                    # The last column is left free: some terminals wrap as soon as it is written.
                    width = console.width - 1
                    shown.update(
                        render(history, width=width, place=place.url, clock=clock, trouble=trouble),
                        refresh=True,
                    )
                elif found is not None:
                    await lines.lines([encoded(found) if as_json else line(found, clock)])
                else:
                    sys.stderr.write(f"inferq: {trouble}\n")
                # Of what was missed while nobody answered nothing is made up for.
                next_s = max(next_s + interval_s, time.monotonic())
                await asyncio.sleep(next_s - time.monotonic())


def _print(found: dict[str, Any]) -> None:
    queue, batches = found["queue"], found["batches"]
    made = table("", "")
    made.show_header = False
    row(made, "waiting", counted(queue["depth"], "job"))
    row(made, "dead letters", queue["dead"])
    row(made, "arrival", f"{queue['arrival_rate']:.1f} jobs/s")
    row(made, "drain", f"{queue['drain_rate']:.1f} jobs/s")
    mean = batches["jobs"] / batches["count"] if batches["count"] else 0
    row(made, "batches", f"{batches['count']} with {counted(batches['jobs'], 'job')}, {mean:.1f} each")
    padded = batches["padded_tokens"]
    row(
        made,
        "padding",
        f"{100 * (1 - batches['tokens'] / padded):.1f} % of {counted(padded, 'token')}" if padded else "none",
    )
    for title, name in (("queue wait", "queue_wait"), ("inference", "inference"), ("total", "total")):
        times = found["latency_ms"][name]
        shown = ", ".join(
            f"{share} {times[share]:.1f} ms" for share in ("p50", "p90", "p99") if times["count"]
        )
        row(made, title, shown or "nothing in the last 10 s")
    cache = found["cache"]
    row(made, "same input", f"{cache['hits']} found, {cache['misses']} not")
    routing = found.get("routing", {"routing": "shared"})
    hashed = routing["routing"] == "hash"
    if hashed:
        unowned = len(routing["unowned"])
        row(
            made,
            "routing",
            f"hash, {routing['shards']} shards" + (f", {unowned} of them nobody's" if unowned else ""),
        )
    ratio = batches["inference_ms"] / batches["predicted_ms"] if batches["predicted_ms"] else 0
    row(made, "predicted", f"batches took {ratio:.2f} times that" if ratio else "nothing yet")
    row(
        made,
        "mishaps",
        f"{counted(batches['splits'], 'batch', 'batches')} split,"
        f" {counted(batches['engine_restarts'], 'engine')} restarted,"
        f" {counted(batches['expired'], 'job')} expired",
    )
    row(made, "breakers", breakers(found) or f"all {len(found.get('breakers', []))} closed")
    for title, counts in (("sizes", batches["size_histogram"]), ("closed by", batches["close_reasons"])):
        row(made, title, ", ".join(f"{name}: {count}" for name, count in counts.items()) or "none")
    output().print(made)
    columns = ("batcher", "model", "precision", "device", "layout", "state", "last progress")
    batchers = table(*columns)
    for entry in found["batchers"]:
        progress = f"{entry['last_progress_s']:.1f} s ago"
        told = (entry["id"], entry["model"], entry["precision"], entry["device"], entry["layout"])
        row(batchers, *told, entry["state"], progress)
    output().print(batchers if found["batchers"] else "no batcher is alive")
    if found["batchers"]:
        output().print(_caches(found["batchers"], hashed=hashed))


def _caches(batchers: list[dict[str, Any]], *, hashed: bool) -> Any:
    """Return a table of what each batcher's cache holds and found, and of its shards if there are any."""
    made = table(
        "batcher", *(["shards"] if hashed else []), "results kept", "found", "not", "hit rate", "a hit takes"
    )
    for entry in batchers:
        cache = entry.get("cache", {})
        rate, hit_us = cache.get("hit_rate"), cache.get("hit_us")
        row(
            made,
            entry["id"],
            *([len(entry["shards"])] if hashed else []),
            cache.get("size", "-"),
            cache.get("hits", "-"),
            cache.get("misses", "-"),
            "-" if rate is None else f"{rate:.1%}",
            "-" if hit_us is None else f"{hit_us:.1f} us",
        )
    return made
