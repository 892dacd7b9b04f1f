"""`inferq dead`: jobs that were given up: look at them, run them again, drop them."""

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from inferq.cli.deployment import find_servers
from inferq.cli.flags import Json, State
from inferq.cli.plain import printable
from inferq.cli.terminal import output, progress, row, run, table
from inferq.errors import OperatorError, Undecodable
from inferq.jobs import isoformat
from inferq.messages import DeadLetter, decode_job
from inferq.names import DEAD_LIMIT
from inferq.plurals import counted
from inferq.replays import MOST_AT_ONCE
from inferq.replays import replay as replay_letters
from inferq.settings import Settings

if TYPE_CHECKING:
    from inferq.broker import Broker

app = typer.Typer(help="Dead letters: jobs that were given up.", no_args_is_help=True)

Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID...]", help="ids of the jobs")]
All = Annotated[bool, typer.Option("--all", help="every dead letter")]


@app.command(name="list")
def list_letters(
    limit: Annotated[int, typer.Option(min=1, max=DEAD_LIMIT, help="how many to show at most")] = 100,
    json: Json = False,
    state: State = None,
) -> None:
    """List dead letters, oldest first."""
    raise typer.Exit(run(_list(find_servers(state), limit, as_json=json)))


@app.command()
def show(
    job_id: Annotated[str, typer.Argument(metavar="ID")], json: Json = False, state: State = None
) -> None:
    """Show one dead letter with its reason, its history and its message."""
    raise typer.Exit(run(_show(find_servers(state), job_id, as_json=json)))


@app.command()
def replay(ids: Ids = None, every: All = False, state: State = None) -> None:
    """Run jobs again, each as a new job without a deadline; its dead letter goes."""
    wanted = _chosen(ids, every=every)
    raise typer.Exit(run(_replay(find_servers(state), wanted)))


@app.command()
def drop(
    ids: Ids = None,
    every: All = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask before dropping all")] = False,
    state: State = None,
) -> None:
    """Remove dead letters for good."""
    wanted = _chosen(ids, every=every)
    if wanted is None and not yes:
        typer.confirm("Drop every dead letter?", abort=True)
    raise typer.Exit(run(_drop(find_servers(state), wanted)))


def _chosen(ids: list[str] | None, *, every: bool) -> list[str] | None:
    """Return the ids once each, or None for all."""
    if bool(ids) == every:
        raise OperatorError("give the ids of jobs, or --all")
    return list(dict.fromkeys(ids)) if ids else None


async def _list(settings: Settings, limit: int, *, as_json: bool) -> int:
    with progress("reading dead letters"):
        async with _opened(settings) as broker:
            letters = [entry.letter for entry in await broker.dead(limit)]
            count = await broker.dead_count()
    if as_json:
        for letter in letters:
            typer.echo(msgspec.json.encode(letter).decode())
        return 0
    if letters:
        made = table("job", "reason", "attempt", "died", "detail", right=("attempt",))
        made.columns[0].no_wrap = True
        for letter in letters:
            row(made, letter.job_id, letter.reason, letter.attempt, isoformat(letter.died_ms), letter.detail)
        output().print(made)
    typer.echo(counted(count, "dead letter") + (f", {len(letters)} shown" if count > len(letters) else ""))
    return 0


async def _show(settings: Settings, job_id: str, *, as_json: bool) -> int:
    with progress("reading dead letters"):
        async with _opened(settings) as broker:
            letter = (await _letters(broker, [job_id])).get(job_id)
    if letter is None:
        return _missing([job_id])
    if as_json:
        typer.echo(msgspec.json.encode(letter).decode())
        return 0
    made = table("", "")
    made.show_header = False
    for name in ("job_id", "reason", "detail", "queue", "attempt", "batcher"):
        row(made, name.replace("_", " "), getattr(letter, name))
    row(made, "died", isoformat(letter.died_ms))
    for entry in letter.history:
        row(made, "history", ", ".join(f"{name} {value}" for name, value in entry.items()))
    try:
        job = decode_job(letter.body)
    except Undecodable as error:
        row(made, "message", f"unreadable: {error.reason}")
    else:
        row(made, "model", job.model)
        row(made, "created", isoformat(job.created_ms))
        for tensor in job.inputs:
            row(made, "input", f"{printable(tensor.name)} {tensor.datatype} {list(tensor.shape)}")
        if not job.inputs:
            row(made, "text", printable(job.text))
        if job.text_pair:
            row(made, "text pair", printable(job.text_pair))
    output().print(made)
    return 0


async def _replay(settings: Settings, wanted: list[str] | None) -> int:
    """Replay some letters after the others, since each removal looks through all that there are."""
    failed: dict[str, str] = {}
    with progress("reading dead letters") as shown:
        async with _opened(settings) as broker:
            letters = await _letters(broker, wanted)
            left = list(letters.values())
            for first in range(0, len(left), MOST_AT_ONCE):
                shown.show(f"replaying, {first} of {len(left)} done")
                found = await replay_letters(broker, settings.names, left[first : first + MOST_AT_ONCE])
                failed |= found.failed
                for old_id, new_id in found.replayed.items():
                    shown.line(f"{printable(old_id, 100)} -> {new_id}")
                if found.refused:
                    break
    for old_id, detail in failed.items():
        typer.echo(f"inferq: {printable(old_id, 100)} stays: {detail}", err=True)
    return 1 if _missing([job_id for job_id in wanted or () if job_id not in letters]) or failed else 0


async def _drop(settings: Settings, wanted: list[str] | None) -> int:
    with progress("dropping dead letters"):
        async with _opened(settings) as broker:
            letters = await broker.drop_dead(None if wanted is None else set(wanted))
    dropped = {letter.job_id for letter in letters}
    typer.echo(f"{len(letters)} dropped")
    return _missing([job_id for job_id in wanted or () if job_id not in dropped])


async def _letters(broker: "Broker", wanted: list[str] | None) -> dict[str, DeadLetter]:
    """Return the letters of these jobs (of all, when None) by job, oldest first."""
    entries = await broker.dead(DEAD_LIMIT)
    return {
        entry.letter.job_id: entry.letter
        for entry in entries
        if wanted is None or entry.letter.job_id in wanted
    }


def _missing(job_ids: list[str]) -> int:
    for job_id in job_ids:
        typer.echo(f"inferq: there is no dead letter of job {printable(job_id, 80)}", err=True)
    return 1 if job_ids else 0


def _opened(settings: Settings) -> AbstractAsyncContextManager["Broker"]:
    # Both clients take a good part of a second to import.
    from inferq.cli.servers import open_broker

    return open_broker(settings)
