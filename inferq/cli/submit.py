"""`inferq submit`: texts in, results out, in their order."""

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from inferq.cli.deployment import Endpoint, endpoint
from inferq.cli.flags import Json, KeyFile, State, Url
from inferq.cli.plain import printable
from inferq.cli.stdin import stdin_lines
from inferq.cli.terminal import progress, run
from inferq.errors import OperatorError

if TYPE_CHECKING:
    from inferq.cli.api import Outcome


def submit(
    texts: Annotated[
        list[str],
        typer.Argument(metavar="TEXT...", help="texts to classify; `-` reads lines from standard input"),
    ],
    url: Url = None,
    json: Json = False,
    state: State = None,
    key_file: KeyFile = None,
) -> None:
    """Submit texts, follow them by push, print the results in order; exit 1 when any is not done."""
    if texts.count("-") > 1:
        raise OperatorError("standard input can be read once only: give `-` once")
    raise typer.Exit(run(_submit(endpoint(url, state, key_file), texts, as_json=json)))


async def _submit(place: Endpoint, texts: list[str], *, as_json: bool) -> int:
    from inferq.cli.api import MAX_IN_FLIGHT, open_api

    # A spinner would run into what somebody types.
    typed = "-" in texts and sys.stdin.isatty()
    async with open_api(place.url, key=place.key) as api, asyncio.TaskGroup() as group:
        await api.check()
        # The queue bounds how many are under way; results are printed in the order of their texts.
        under_way: asyncio.Queue[asyncio.Task[Outcome] | None] = asyncio.Queue(MAX_IN_FLIGHT - 1)
        printing = group.create_task(_print_in_order(under_way, as_json=as_json, typed=typed))
        async for text in _read(texts):
            await under_way.put(group.create_task(api.run(text)))
        await under_way.put(None)
        failed = await printing
    return 1 if failed else 0


async def _read(texts: list[str]) -> AsyncIterator[str]:
    for text in texts:
        if text != "-":
            yield text
            continue
        async for line in stdin_lines():
            if line.strip():
                yield line


async def _print_in_order(
    under_way: "asyncio.Queue[asyncio.Task[Outcome] | None]", *, as_json: bool, typed: bool
) -> int:
    """Print each outcome and return how many were not done."""
    printed = failed = 0
    with progress("waiting for the first result", quiet=typed) as shown:
        while (task := await under_way.get()) is not None:
            outcome = await task
            shown.line(_as_json(outcome) if as_json else _as_text(outcome))
            printed += 1
            failed += not outcome.done
            shown.show(f"{printed} printed")
    return failed


def _as_text(outcome: "Outcome") -> str:
    text = printable(outcome.text, 80)
    if outcome.refusal is not None:
        return f"refused   {printable(str(outcome.refusal))}  {text}"
    record = outcome.record
    if record is None or record.result is None:
        status = record.status if record else "unknown"
        why = f" {record.error.code}: {record.error.detail}" if record and record.error else ""
        return f"{status}{why}  {text}"
    return f"{record.result['label']:<9} {record.result['score']:.4f} {outcome.result_ms:7.1f} ms  {text}"


def _as_json(outcome: "Outcome") -> str:
    if outcome.refusal is not None:
        error = {"code": outcome.refusal.code, "detail": outcome.refusal.detail}
        return msgspec.json.encode({"job_id": None, "status": "refused", "error": error}).decode()
    return outcome.raw.decode()
