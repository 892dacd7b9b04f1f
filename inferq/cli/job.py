"""`inferq job`: one record."""

from datetime import datetime
from typing import Annotated

import typer

from inferq.cli.deployment import Endpoint, endpoint
from inferq.cli.flags import Json, KeyFile, State, Url
from inferq.cli.terminal import output, row, run, table
from inferq.cli.watch import is_id
from inferq.jobs import JobRecord, WebhookState
from inferq.plurals import counted


def job(
    job_id: Annotated[str, typer.Argument(metavar="ID")],
    url: Url = None,
    json: Json = False,
    state: State = None,
    key_file: KeyFile = None,
) -> None:
    """Show a job: its status, result and where its time went."""
    raise typer.Exit(run(_job(endpoint(url, state, key_file), job_id, as_json=json)))


async def _job(place: Endpoint, job_id: str, *, as_json: bool) -> int:
    from inferq.cli.calls import connected

    # The id becomes part of a path.
    if not is_id(job_id):
        typer.echo(f"inferq: {job_id!r} is no job id", err=True)
        return 1
    async with connected(place) as client:
        record = await client.record(job_id)
    if as_json:
        typer.echo(record.raw.decode())
    else:
        _print(record)
    return 0


def _print(record: JobRecord) -> None:
    made = table("", "")
    made.show_header = False
    row(made, "job", record.job_id)
    row(made, "status", record.status)
    row(made, "model", record.model)
    if record.result is not None:
        row(made, "label", f"{record.result['label']} ({record.result['score']:.4f})")
        scores = record.result.get("scores", {})
        row(made, "scores", ", ".join(f"{label} {score:.4f}" for label, score in scores.items()))
        row(made, "truncated", "yes" if record.result.get("truncated") else "no")
    if record.error is not None:
        row(made, "error", f"{record.error.code}: {record.error.detail}")
    row(made, "cached", "yes" if record.cached else "no")
    row(made, "attempt", record.attempt)
    row(made, "changes", record.seq)
    for name in ("created_at", "started_at", "finished_at", "deadline_at"):
        when: datetime | None = getattr(record, name)
        if when is not None:
            row(made, name.replace("_at", ""), f"{when:%Y-%m-%d %H:%M:%S.%f}"[:-3] + " UTC")
    if (timings := record.timings_ms) is not None:
        names = ("queue_wait", "batch_wait", "tokenize", "inference", "store", "total")
        row(
            made,
            "time (ms)",
            ", ".join(f"{name.replace('_', ' ')} {getattr(timings, name):.1f}" for name in names),
        )
    if (batch := record.batch) is not None:
        jobs = counted(batch.size, "job")
        tokens = f"{batch.tokens} of {counted(batch.padded_tokens, 'token')}"
        row(made, "batch", f"{jobs}, {tokens}, closed: {batch.close_reason}")
        row(made, "batcher", batch.batcher)
    if record.webhook:
        row(made, "webhook", hook_text(record.webhook))
    output().print(made)


def hook_text(state: WebhookState) -> str:
    """Return what became of a webhook, in words."""
    tries = f"{state.state} after {counted(state.attempts, 'try', 'tries')}"
    last = ", ".join(str(one) for one in (state.last_status, state.last_error) if one is not None)
    next_at = f", next at {state.next_at:%H:%M:%S} UTC" if state.next_at is not None else ""
    return f"{tries}{f' ({last})' if last else ''}{next_at}"
