"""`inferq submit`: texts in, results out."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from inferq.cli.asked import from_json, from_text, with_pair
from inferq.cli.deployment import Endpoint, endpoint
from inferq.cli.flags import KeyFile, State, Url
from inferq.cli.headway import Headway
from inferq.cli.inputs import Source, chunks, count, sources
from inferq.cli.outcomes import Outcome, as_json, as_text
from inferq.cli.printing import printer
from inferq.cli.running import INTERRUPTED
from inferq.cli.tensorfile import submit_file
from inferq.cli.terminal import bar, progress, run
from inferq.errors import OperatorError
from inferq.jobs import Priority
from inferq.sdk.batches import Options

if TYPE_CHECKING:
    from inferq import AsyncClient
    from inferq.cli.sending import Items, Sending

_SHOWN_EVERY_S: Final = 0.25
# So long nothing may come before it is asked why; then as long between tries.
_SILENT_S: Final = 3.0


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    sources: Sequence[Source]
    options: Options
    text_pair: str | None
    input_json: bool
    as_json: bool
    in_order: bool
    out: Path | None


def submit(
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TEXT...]", help="texts to run; `-` reads lines from standard input"),
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option("--file", metavar="FILE", help="read lines from this file; may be given several times"),
    ] = None,
    input_json: Annotated[
        bool,
        typer.Option(
            "--input-json",
            help='lines are JSON: {"text": …}, and if wanted "text_pair" or the API\'s options, such as "model"',
        ),
    ] = False,
    text_pair: Annotated[
        str | None,
        typer.Option(
            "--text-pair", metavar="TEXT", help="the second text of each pair, for a model that takes pairs"
        ),
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option(
            "--inputs",
            metavar="FILE",
            help='submit one job of tensors from JSON: lists by the names of inputs, or the API\'s {"inputs": […]}',
        ),
    ] = None,
    unordered: Annotated[
        bool, typer.Option("--unordered", help="print results as they come, not in the order of the texts")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="print one record a line (JSON Lines)")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="write results to this file, anew")
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="the model to ask for")] = None,
    priority: Annotated[
        Priority | None, typer.Option(help="the queue to wait in (default: interactive)")
    ] = None,
    deadline_ms: Annotated[
        int | None,
        typer.Option(
            "--deadline-ms",
            min=1,
            max=86_400_000,
            metavar="MS",
            help="a job that has no result so long after its acceptance expires",
        ),
    ] = None,
    webhook: Annotated[
        str | None, typer.Option(metavar="URL", help="where each final record is sent besides")
    ] = None,
    url: Url = None,
    state: State = None,
    key_file: KeyFile = None,
) -> None:
    """Submit texts, follow them by push, print the results; exit 1 when any is not done.

    Lines are sent as they are read, up to 256 in a request, and read no faster than they are done: at most 1024 are
    under way, so a file of any length needs no more memory than a short one. In order, one slow job holds the results
    after it, and once 1024 are held the reading stops until it ends; --unordered waits for nobody.

    A text that is refused has its line too. Ctrl-C stops at once, and what was submitted still runs.
    """
    options = Options(
        model=model, priority=priority and str(priority), deadline_ms=deadline_ms, webhook=webhook
    )
    if inputs is not None:
        if texts or file or text_pair is not None:
            raise OperatorError("--inputs stands for one job of tensors: leave texts and --file out")
        raise typer.Exit(run(submit_file(endpoint(url, state, key_file), inputs, options, json=json)))
    wanted = _Wanted(
        sources=sources(texts or [], file or []),
        options=options,
        text_pair=text_pair,
        input_json=input_json,
        as_json=json,
        in_order=not unordered,
        out=out,
    )
    if not wanted.sources:
        raise OperatorError(
            "there is nothing to submit: give texts, `-` for standard input, --file or --inputs"
        )
    kept: list[Sending] = []
    try:
        code = run(_submit(endpoint(url, state, key_file), wanted, kept))
    except KeyboardInterrupt:
        sys.stderr.write(f"inferq: interrupted{left_over(kept)}\n")
        code = INTERRUPTED
    except BrokenPipeError:
        # Who reads has seen enough.
        code = 1
    raise typer.Exit(code)


async def _submit(place: Endpoint, wanted: _Wanted, kept: "list[Sending]") -> int:
    from inferq.cli.calls import connected
    from inferq.cli.sending import Sending

    # A bar would run into what somebody types.
    typed = any(source.typed for source in wanted.sources)
    render = as_json if wanted.as_json else as_text
    with printer(wanted.out) as results:
        async with connected(place) as client:
            headway = Headway(time.monotonic(), total=0 if typed else await count(wanted.sources))
            with progress("waiting for the first result", quiet=typed) as shown:

                async def show(outcomes: Sequence[Outcome]) -> None:
                    await results.lines([render(outcome) for outcome in outcomes], shown)
                    headway.add(len(outcomes), sum(not outcome.done for outcome in outcomes))

                async def tell() -> None:
                    while shown.watched:
                        text = headway.text(time.monotonic())
                        shown.show(bar(text, headway.ended, headway.total))
                        await asyncio.sleep(_SHOWN_EVERY_S)

                sending = Sending(client, show, in_order=wanted.in_order)
                kept.append(sending)
                async with asyncio.TaskGroup() as group:
                    beside = [group.create_task(tell()), group.create_task(explain_silence(client, sending))]
                    await sending.run(_read(wanted))
                    for task in beside:
                        task.cancel()
    if sending.unreachable:
        sys.stderr.write(f"inferq: {place.url} does not answer any more, so no further lines were read\n")
    return 1 if sending.failed else 0


async def explain_silence(client: "AsyncClient", sending: "Sending") -> None:
    """Say once on standard error that no batcher is there, while jobs wait and none has ended yet."""
    from inferq import ClientError

    while not sending.printed:
        await asyncio.sleep(_SILENT_S)
        if sending.unprinted and not sending.printed:
            try:
                found = await client.stats()
            except ClientError:
                # Whoever submits will hear of it.
                continue
            if not found["batchers"]:
                sys.stderr.write("inferq: no batcher is running, so the jobs wait: see `inferq doctor`\n")
            return


async def _read(wanted: _Wanted) -> "AsyncIterator[Items]":
    for source in wanted.sources:
        read = from_json if wanted.input_json and source.descriptor is not None else from_text
        async for lines in chunks(source):
            yield [with_pair(read(line, wanted.options), wanted.text_pair) for line in lines]


def left_over(kept: "Sequence[Sending]") -> str:
    """Return what an interrupted run leaves behind, in words; nothing where all was printed or none was begun.

    What is just being printed counts as not printed.
    """
    if not kept:
        return ""
    sending = kept[0]
    left = []
    if sending.unprinted:
        left.append(f"{sending.unprinted:,} submitted jobs were not printed and still run")
    if sending.submitting:
        left.append(f"{sending.submitting:,} more may have become jobs")
    return f": {', and '.join(left)}" if left else ""
