"""`inferq doctor`: what is wrong, and the cure."""

from pathlib import Path

import typer

from inferq.cli.credentials import given_key
from inferq.cli.deployment import Endpoint, checked_url
from inferq.cli.flags import KeyFile, State, Url
from inferq.cli.plain import printable
from inferq.cli.terminal import progress, run


def doctor(url: Url = None, state: State = None, key_file: KeyFile = None) -> None:
    """Check Python, settings, processes, Redis, broker, model, device and one job; exit 1 when something is wrong."""
    raise typer.Exit(run(_doctor(state, url, given_key(key_file))))


async def _doctor(state_dir: Path | None, url: str | None, key: str | None) -> int:
    from inferq.cli.checks import examine

    place = None if url is None else Endpoint(url=checked_url(url), key=key)
    wrong = 0
    with progress("examining") as shown:
        async for finding in examine(state_dir, place, key):
            shown.show(f"after {finding.name}")
            word = "ok" if finding.ok else "wrong"
            shown.line(f"{word:<6} {finding.name:<10} {printable(finding.detail)}")
            if finding.cure:
                shown.line(f"{'':<6} {'':<10} cure: {printable(finding.cure)}")
            wrong += not finding.ok
    typer.echo(f"{wrong} wrong" if wrong else "everything is well")
    return 1 if wrong else 0
