"""`inferq webhooks`: those that wait and those that were given up, another day for them, and the secrets they bear."""

from enum import StrEnum
from typing import Annotated, Final

import msgspec
import typer

from inferq.cli.deployment import find_servers
from inferq.cli.flags import Json, State
from inferq.cli.plain import printable
from inferq.cli.terminal import output, progress, row, run, table
from inferq.errors import OperatorError
from inferq.jobs import isoformat
from inferq.settings import Settings
from inferq.webhooks.signing import secret_of

MOST_SHOWN: Final = 100_000

app = typer.Typer(
    help="Webhooks: what waits, what was given up, and how to check signatures.", no_args_is_help=True
)


class Which(StrEnum):
    """Which webhooks are meant."""

    PENDING = "pending"
    FAILED = "failed"


@app.command(name="list")
def list_webhooks(
    failed: Annotated[bool, typer.Option("--failed", help="only those that were given up")] = False,
    pending: Annotated[bool, typer.Option("--pending", help="only those that are not delivered yet")] = False,
    limit: Annotated[int, typer.Option(min=1, max=MOST_SHOWN, help="how many of each to show at most")] = 100,
    json: Json = False,
    state: State = None,
) -> None:
    """List webhooks that are not delivered yet, soonest due first, and those that were given up, oldest first."""
    wanted = [which for which, named in ((Which.PENDING, pending), (Which.FAILED, failed)) if named]
    raise typer.Exit(run(_list(find_servers(state), wanted or list(Which), limit, as_json=json)))


@app.command()
def retry(
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID...]", help="ids of the jobs")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="all that were given up")] = False,
    state: State = None,
) -> None:
    """Send webhooks again now, with a fresh day of tries."""
    if bool(ids) == failed:
        raise OperatorError("give the ids of jobs, or --failed")
    raise typer.Exit(run(_retry(find_servers(state), list(dict.fromkeys(ids or ())) or None)))


@app.command()
def secret(
    name: Annotated[str, typer.Argument(help="name of an API key; none for a deployment without keys")] = "",
    state: State = None,
) -> None:
    """Print the secret that a receiver checks the signatures of an API key's webhooks with."""
    settings = find_servers(state)
    if not settings.webhook_secret:
        raise OperatorError(
            "there are no webhooks here: INFERQ_WEBHOOK_SECRET is not set; name the running deployment's, or make one"
            " with `echo whsec_$(openssl rand -base64 32)`"
        )
    typer.echo(secret_of(settings.webhook_secret, name))


async def _list(settings: Settings, wanted: list[Which], limit: int, *, as_json: bool) -> int:
    from inferq.cli.servers import open_outbox

    with progress("reading webhooks"):
        async with open_outbox(settings) as outbox:
            found = [
                one
                for which in wanted
                for one in await outbox.waiting(failed=which is Which.FAILED, limit=limit)
            ]
            pending, failed = await outbox.pending(), await outbox.failed()
    if as_json:
        for one in found:
            shown = msgspec.structs.asdict(one) | {"at": isoformat(one.at_ms)}
            del shown["at_ms"]
            typer.echo(msgspec.json.encode(shown).decode())
        return 0
    if found:
        made = table(
            "job", "state", "host", "key", "tries", "status", "error", "next or given up", right=("tries",)
        )
        made.columns[0].no_wrap = True
        for one in found:
            status = "" if one.last_status is None else one.last_status
            row(
                made, one.job_id, one.state, one.host, one.owner, one.attempts, status, one.last_error or "",
                isoformat(one.at_ms),
            )  # fmt: skip  # as the columns stand
        output().print(made)
    typer.echo(f"{pending} pending, {failed} failed" + (f", {len(found)} shown" if found else ""))
    return 0


async def _retry(settings: Settings, wanted: list[str] | None) -> int:
    from inferq.cli.servers import open_outbox

    with progress("reading webhooks"):
        async with open_outbox(settings) as outbox:
            if wanted is None:
                wanted = [one.job_id for one in await outbox.waiting(failed=True, limit=MOST_SHOWN)]
            done = await outbox.retry(wanted)
    missing = [job_id for job_id, taken in zip(wanted, done, strict=True) if not taken]
    typer.echo(f"{sum(done)} due now")
    for job_id in missing:
        typer.echo(f"inferq: job {printable(job_id, 80)} has no webhook that waits or was given up", err=True)
    return 1 if missing else 0
