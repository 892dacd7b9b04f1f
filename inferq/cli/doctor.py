"""`inferq doctor`: what is wrong, and the cure."""

import logging
from pathlib import Path

import msgspec
import typer

from inferq.cli.credentials import given_key
from inferq.cli.deployment import Endpoint, checked_url
from inferq.cli.flags import Json, KeyFile, State, Url
from inferq.cli.terminal import progress, run


def doctor(url: Url = None, state: State = None, key_file: KeyFile = None, json: Json = False) -> None:
    """Check processes, ports, Redis, broker, model, device, disk, clock and one job; exit 1 when something is wrong.

    A note is worth knowing and leaves the exit at 0.
    """
    raise typer.Exit(run(_doctor(state, url, given_key(key_file), as_json=json)))


async def _doctor(state_dir: Path | None, url: str | None, key: str | None, *, as_json: bool) -> int:
    from inferq.cli.examining.examination import examine
    from inferq.cli.examining.finding import Finding, Grade
    from inferq.cli.examining.layout import lines, verdict

    # What libraries log about that which is wrong is not for who reads the findings.
    logging.getLogger().addHandler(logging.NullHandler())
    place = None if url is None else Endpoint(url=checked_url(url), key=key)
    found: list[Finding] = []
    with progress("examining") as shown:
        async for part in examine(state_dir, place, key):
            for finding in part:
                shown.show(f"after {finding.name}")
                if not as_json:
                    for line in lines(finding):
                        shown.line(line)
            found += part
    wrong = sum(finding.grade is Grade.WRONG for finding in found)
    if as_json:
        typer.echo(msgspec.json.encode({"well": not wrong, "wrong": wrong, "findings": found}).decode())
    else:
        typer.echo(verdict(found))
    return 1 if wrong else 0
