"""`inferq stats`: the queue, the batchers and their batches, now."""

from typing import Any

import msgspec
import typer

from inferq.cli.deployment import Endpoint, endpoint
from inferq.cli.flags import Json, KeyFile, State, Url
from inferq.cli.terminal import output, row, run, table


def stats(url: Url = None, json: Json = False, state: State = None, key_file: KeyFile = None) -> None:
    """Show how many jobs wait, how fast they come and go, and what the batchers do."""
    raise typer.Exit(run(_stats(endpoint(url, state, key_file), as_json=json)))


async def _stats(place: Endpoint, *, as_json: bool) -> int:
    from inferq.cli.api import open_api

    async with open_api(place.url, key=place.key) as api:
        await api.check()
        found = await api.stats()
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
    else:
        _print(found)
    return 0


def _print(found: dict[str, Any]) -> None:
    queue, batches = found["queue"], found["batches"]
    made = table("", "")
    made.show_header = False
    row(made, "waiting", f"{queue['depth']} jobs")
    row(made, "dead letters", queue["dead"])
    row(made, "arrival", f"{queue['arrival_rate']:.1f} jobs/s")
    row(made, "drain", f"{queue['drain_rate']:.1f} jobs/s")
    mean = batches["jobs"] / batches["count"] if batches["count"] else 0
    row(made, "batches", f"{batches['count']} with {batches['jobs']} jobs, {mean:.1f} jobs each")
    padded = batches["padded_tokens"]
    row(
        made,
        "padding",
        f"{100 * (1 - batches['tokens'] / padded):.1f} % of {padded} tokens" if padded else "none",
    )
    cache = found["cache"]
    row(made, "same input", f"{cache['hits']} found, {cache['misses']} not")
    ratio = batches["inference_ms"] / batches["predicted_ms"] if batches["predicted_ms"] else 0
    row(made, "predicted", f"batches took {ratio:.2f} times that" if ratio else "nothing yet")
    row(
        made,
        "mishaps",
        f"{batches['splits']} batches split, {batches['engine_restarts']} engines restarted,"
        f" {batches['expired']} jobs expired",
    )
    for title, counts in (("sizes", batches["size_histogram"]), ("closed by", batches["close_reasons"])):
        row(made, title, ", ".join(f"{name}: {count}" for name, count in counts.items()) or "none")
    output().print(made)
    columns = ("batcher", "model", "precision", "device", "layout", "state", "last progress")
    batchers = table(*columns)
    for entry in found["batchers"]:
        progress = f"{entry['last_progress_s']:.1f} s ago"
        shown = (entry["id"], entry["model"], entry["precision"], entry["device"], entry["layout"])
        row(batchers, *shown, entry["state"], progress)
    output().print(batchers if found["batchers"] else "no batcher is alive")
