"""`inferq watch`: jobs, followed to their ends."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from inferq.cli.deployment import Endpoint, endpoint
from inferq.cli.flags import KeyFile, State, Url
from inferq.cli.inputs import STDIN, chunks, sources
from inferq.cli.outcomes import change, encoded
from inferq.cli.plain import printable
from inferq.cli.printing import Printer, printer
from inferq.cli.running import INTERRUPTED
from inferq.cli.terminal import run
from inferq.errors import OperatorError
from inferq.jobs import Status

_ID_WIDTH: Final = 32


def watch(
    ids: Annotated[
        list[str], typer.Argument(metavar="ID...", help="ids of jobs; `-` reads them from standard input")
    ],
    json: Annotated[bool, typer.Option("--json", help="print one record a line (JSON Lines)")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="write lines to this file, anew")
    ] = None,
    url: Url = None,
    state: State = None,
    key_file: KeyFile = None,
) -> None:
    """Follow jobs by push and print each change as it comes; exit 1 when any is not done, or is not known.

    A line holds id, status, and the time since acceptance; the last one of a job also its result or its error.
    Ends when all jobs have ended, and lets no restart of the service come in between. Ctrl-C stops at once.
    """
    if ids.count(STDIN) > 1:
        raise OperatorError("standard input can be read once only: give `-` once")
    try:
        code = run(_watch(endpoint(url, state, key_file), ids, as_json=json, out=out))
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        # Who reads has seen enough.
        code = 1
    raise typer.Exit(code)


async def _watch(place: Endpoint, ids: Sequence[str], *, as_json: bool, out: Path | None) -> int:
    from inferq import JobNotFound
    from inferq.cli.calls import connected

    failed = False
    # Those that have not ended: with those that have, a pipe of any length would fill the memory.
    waited: dict[str, None] = {}
    with printer(out) as results:
        async with connected(place) as client:
            try:
                async for record in client.stream(_ids(ids, waited), updates=True):
                    await results.lines([record.raw.decode() if as_json else change(record)])
                    if record.final:
                        waited.pop(record.job_id, None)
                        failed |= record.status is not Status.DONE
            except JobNotFound:
                pass
        await _print_unknown(results, list(waited), as_json=as_json)
    return 1 if failed or waited else 0


async def _ids(ids: Sequence[str], waited: dict[str, None]) -> AsyncIterator[str]:
    for source in sources(ids, ()):
        async for lines in chunks(source):
            for line in lines:
                job_id = line.strip()
                waited[job_id] = None
                # The id becomes part of a message, and may become one of a path.
                if is_id(job_id):
                    yield job_id


async def _print_unknown(results: Printer, ids: Sequence[str], *, as_json: bool) -> None:
    detail = "there is no such job, or it is another key's, or its record has expired"
    for job_id in ids:
        shown = printable(job_id, _ID_WIDTH)
        error = {"code": "not_found", "detail": detail}
        row = {"job_id": shown, "status": "unknown", "error": error}
        await results.lines([encoded(row) if as_json else f"{shown}  {'unknown':<9} {detail}"])


def is_id(text: str) -> bool:
    """Whether a text can be the id of a job."""
    return text.isascii() and text.isalnum() and len(text) <= _ID_WIDTH
