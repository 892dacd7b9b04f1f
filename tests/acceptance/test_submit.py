"""`inferq submit`, `watch` and `stats --watch` as their users have them: processes with pipes, files and signals."""

import asyncio
import json
import os
import pty
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.acceptance.conftest import StartPipeline
from tests.acceptance.running import Up, command, environ
from tests.support import eventually

SLOW = "simulated:200,0"


@asynccontextmanager
async def started(up: Up, *argv: str, **streams: Any) -> AsyncIterator[asyncio.subprocess.Process]:
    """A command that runs, and that does not outlive the test."""
    pipes = {name: streams.get(name, asyncio.subprocess.PIPE) for name in ("stdin", "stdout", "stderr")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "inferq",
        argv[0],
        "--state",
        str(up.state_dir),
        *argv[1:],
        **pipes,
        env=environ({}),
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def ended(process: asyncio.subprocess.Process) -> int:
    """The exit code."""
    async with asyncio.timeout(30.0):
        return await process.wait()


def records(text: str) -> list[dict[str, Any]]:
    """JSON Lines."""
    return [json.loads(line) for line in text.splitlines()]


def lines(count: int) -> str:
    """So many different texts."""
    return "".join(f"text number {number}\n" for number in range(count))


async def test_thousands_of_lines_come_out_in_order(each_pipeline: Up) -> None:
    """In order the results are those of the texts, line by line; as they come they are the same results."""
    given = lines(3_000)
    in_order = await each_pipeline.command("submit", "--json", "-", stdin=given)
    assert (in_order.code, in_order.err) == (0, "")
    results = [record["result"] for record in records(in_order.out)]
    assert len(results) == 3_000
    as_they_come = await each_pipeline.command("submit", "--json", "--unordered", "-", stdin=given)
    assert as_they_come.code == 0
    # The model answers by the text alone, so a second run shows whether each line has its own answer.
    again = await each_pipeline.command("submit", "--json", "-", stdin=given)
    assert [record["result"] for record in records(again.out)] == results
    unordered = [json.dumps(record["result"]) for record in records(as_they_come.out)]
    assert sorted(unordered) == sorted(map(json.dumps, results))
    # Some lines by themselves, as another way to the same answer.
    for number in (0, 255, 256, 1_999, 2_999):
        alone = await each_pipeline.command("submit", "--json", f"text number {number}")
        assert records(alone.out)[0]["result"] == results[number]


async def test_files_and_standard_input_follow_each_other(pipeline: Up, tmp_path: Path) -> None:
    """Arguments first, then files in their order; `-` is either of them, once."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("b\n\nc")
    two.write_bytes(b"f\r\ng\n")
    ended = await pipeline.command(
        "submit", "a", "--file", str(one), "--file", "-", "--file", str(two), stdin="d\ne\n"
    )
    assert (ended.code, ended.err) == (0, "")
    assert [line.rpartition(" ms  ")[2] for line in ended.out.splitlines()] == list("abcdefg")
    twice = await pipeline.command("submit", "-", "--file", "-")
    assert (twice.code, twice.err) == (2, "inferq: standard input can be read once only: give `-` once\n")
    missing = await pipeline.command("submit", "--file", str(tmp_path / "none"))
    assert missing.code == 2
    assert missing.err.endswith("none cannot be read (No such file or directory)\n")
    folder = await pipeline.command("submit", "--file", str(tmp_path))
    assert folder.code == 2
    assert folder.err == f"inferq: {tmp_path} cannot be read (Is a directory)\n"
    nothing = await pipeline.command("submit")
    assert (nothing.code, nothing.out) == (2, "")
    assert nothing.err.startswith("inferq: there is nothing to submit: ")


async def test_closed_streams_are_named(pipeline: Up) -> None:
    """A shell closes them with `<&-` and `>&-`; nothing is submitted then."""
    for redirection, named in (("<&-", "standard input is closed"), (">&-", "standard output is closed")):
        shell = f'exec "$0" -m inferq submit --state "$1" - {redirection}'
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", shell, sys.executable, str(pipeline.state_dir),
            stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE, env=environ({}),
        )  # fmt: skip  # the command, then its streams
        _, err = await asyncio.wait_for(process.communicate(), 30.0)
        assert process.returncode == 2
        assert err.decode().startswith(f"inferq: {named}: ")
        assert err.count(b"\n") == 1


async def test_lines_of_json_ask_for_themselves(pipeline: Up, tmp_path: Path) -> None:
    """Fields of a line come before the options; what is no such object is refused in its place."""
    out = tmp_path / "out.jsonl"
    given = "\n".join(
        [
            '{"text": "a"}',
            '{"text": "b", "deadline_ms": 60000}',
            "c",
            '{"text": "d", "model": "none"}',
            '{"text": "e"}',
        ]
    )
    ended = await pipeline.command(
        "submit", "--input-json", "--deadline-ms", "90000", "--json", "--out", str(out), "-", stdin=given
    )
    assert (ended.code, ended.out, ended.err) == (1, "", "")
    first, second, refused, unknown, last = records(out.read_text())
    assert [first["status"], second["status"], last["status"]] == ["done"] * 3
    assert first["deadline_at"] > second["deadline_at"]
    assert refused == {"job_id": None, "status": "refused", "error": refused["error"]}
    assert refused["error"]["detail"].startswith("the line is not what the API takes: ")
    assert unknown["error"]["code"] == "model_not_found"


async def test_lines_that_are_too_long_or_no_utf8_are_refused_in_their_places(pipeline: Up) -> None:
    """Whoever refuses them, the others are done."""
    given = ["good", "x" * 2001, "y" * 200_000, "\udcff", "good too"]
    process_in = "\n".join(given).encode(errors="surrogateescape")
    async with started(pipeline, "submit", "--json", "-") as process:
        out, err = await asyncio.wait_for(process.communicate(process_in), 30.0)
    assert (process.returncode, err) == (1, b"")
    found = records(out.decode())
    assert [entry["status"] for entry in found] == ["done", "refused", "refused", "refused", "done"]
    details = [entry["error"]["detail"] for entry in found[1:4]]
    assert details[0].startswith("/text ")
    assert details[1:] == ["the line is longer than 65,536 bytes", "the line is not UTF-8"]


async def test_memory_does_not_grow_with_the_lines(pipeline: Up, tmp_path: Path) -> None:
    """Four times as many lines cost a few megabytes at most, not four times what they weigh."""
    peaks_bytes = []
    for count in (5_000, 20_000):
        file = tmp_path / f"{count}"
        file.write_text(lines(count))
        out = tmp_path / f"{count}.out"
        async with started(pipeline, "submit", "--json", "--file", str(file), "--out", str(out)) as process:
            process_of = psutil.Process(process.pid)
            peak_bytes = 0
            while process.returncode is None:
                try:
                    peak_bytes = max(peak_bytes, process_of.memory_info().rss)
                except psutil.NoSuchProcess:
                    break
                await asyncio.wait([asyncio.create_task(process.wait())], timeout=0.05)
            assert await ended(process) == 0
        assert len(out.read_text().splitlines()) == count
        peaks_bytes.append(peak_bytes)
    assert peaks_bytes[1] - peaks_bytes[0] < 8 * 1024 * 1024, peaks_bytes


async def test_a_reader_that_has_seen_enough_ends_it_quietly(pipeline: Up) -> None:
    """As `| head -1` does: no traceback, nothing on standard error."""
    async with started(pipeline, "submit", "--json", "-") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"one\n")
        await process.stdin.drain()
        assert json.loads(await process.stdout.readline())["status"] == "done"
        transport = process._transport.get_pipe_transport(1)  # type: ignore[attr-defined]  # closes our end alone
        transport.close()
        process.stdin.write(b"two\n")
        process.stdin.close()
        assert await ended(process) == 1
        assert await process.stderr.read() == b""


async def test_interrupted_it_says_what_it_leaves(start_pipeline: StartPipeline) -> None:
    """Ctrl-C stops at once with exit 130; how many jobs still run is told, whatever still waits for input."""
    up = start_pipeline(model="simulated:60000,0")
    async with started(up, "submit", "-") as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(lines(300).encode())
        await process.stdin.drain()

        async def accepted() -> bool:
            found = json.loads((await up.command("stats", "--json")).out)
            return bool(found["queue"]["arrival_rate"] > 0)

        await eventually(accepted, what="accepted jobs", timeout_s=20.0)
        process.send_signal(signal.SIGINT)
        assert await ended(process) == 130
        said = (await process.stderr.read()).decode()
    assert said == "inferq: interrupted: 300 submitted jobs were not printed and still run\n"


async def test_watch_follows_jobs_through_a_restart_of_push(start_pipeline: StartPipeline) -> None:
    """Every change is printed as it comes; when the notifier dies in between, no end is missed."""
    up = start_pipeline(model="simulated:1500,0", max_batch_size="1")
    ids = [await up.submit(f"text {number}") for number in range(4)]
    async with started(up, "watch", "--json", "-") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n".join(ids).encode() + b"\n")
        process.stdin.close()
        seen = [json.loads(await process.stdout.readline())]
        psutil.Process(up.pid("notifier")).kill()
        out, err = await asyncio.wait_for(process.communicate(), 60.0)
    assert (process.returncode, err) == (0, b"")
    seen += records(out.decode())
    assert {entry["job_id"] for entry in seen if entry["status"] == "done"} == set(ids)
    for job_id in ids:
        seqs = [entry["seq"] for entry in seen if entry["job_id"] == job_id]
        assert seqs == sorted(set(seqs))
    # The last one was still waiting when the notifier died.
    assert next(entry["status"] for entry in seen if entry["job_id"] == ids[-1]) == "queued"


async def test_watch_tells_what_is_not_done_or_not_known(pipeline: Up) -> None:
    """Each has a line with the reason; exit 1."""
    good, bad = await pipeline.submit("good"), await pipeline.submit("[[raise]]")
    for job_id in (good, bad):
        await pipeline.pushed(job_id)
    ended = await pipeline.command("watch", good)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"{good}  done ")
    ended = await pipeline.command("watch", good, bad, "0" * 32, "../stats")
    assert (ended.code, ended.err) == (1, "")
    rows = {line.split()[0]: line for line in ended.out.splitlines()}
    assert set(rows) == {good, bad, "0" * 32, "../stats"}
    assert "inference_failed: " in rows[bad]
    for unknown in ("0" * 32, "../stats"):
        assert "  unknown   there is no such job" in rows[unknown]
    as_json = await pipeline.command("watch", "--json", "0" * 32)
    assert records(as_json.out)[0]["error"]["code"] == "not_found"


@pytest.mark.parametrize(("flags", "read"), [(("--json",), json.loads), ((), str)], ids=["json", "lines"])
async def test_statistics_are_told_until_they_are_interrupted(
    pipeline: Up, flags: tuple[str, ...], read: Callable[[bytes], Any]
) -> None:
    """Without a terminal one line an interval; Ctrl-C is how it ends, with exit 0."""
    async with started(pipeline, "stats", "--watch", "--interval-s", "0.2", *flags) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        shown = [read(await asyncio.wait_for(process.stdout.readline(), 20.0)) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        assert await ended(process) == 0
        assert await process.stderr.read() == b""
    if flags:
        assert all("latency_ms" in found for found in shown)
    else:
        assert all(" waiting, " in line for line in shown)


@asynccontextmanager
async def terminal() -> AsyncIterator[tuple[int, bytearray]]:
    """A terminal's descriptor, and what is written to it."""
    ours, theirs = pty.openpty()
    seen, loop = bytearray(), asyncio.get_running_loop()

    def hear() -> None:
        try:
            seen.extend(os.read(ours, 65_536))
        except OSError:
            # The last process has closed it.
            loop.remove_reader(ours)

    loop.add_reader(ours, hear)
    try:
        yield theirs, seen
    finally:
        loop.remove_reader(ours)
        os.close(ours)
        os.close(theirs)


async def test_a_terminal_sees_a_picture(pipeline: Up) -> None:
    """`stats --watch` draws until Ctrl-C, and gives the cursor back."""
    async with terminal() as (screen, seen):
        streams = {"stdin": asyncio.subprocess.DEVNULL, "stdout": screen, "stderr": screen}
        async with started(pipeline, "stats", "--watch", **streams) as process:
            parts = (b"waiting", b"batch sizes", b"simulated")
            await eventually(lambda: all(part in seen for part in parts), what="a picture", timeout_s=30.0)
            process.send_signal(signal.SIGINT)
            assert await ended(process) == 0
        await eventually(lambda: seen.rfind(b"\x1b[?25h") > seen.rfind(b"\x1b[?25l") > -1, what="the cursor")


async def test_a_terminal_sees_how_far_a_submit_is(pipeline: Up, tmp_path: Path) -> None:
    """The bar is on standard error, with the number of lines, which a file tells beforehand."""
    file = tmp_path / "lines"
    file.write_text(lines(4_000))
    async with terminal() as (screen, seen):
        streams = {"stdin": asyncio.subprocess.DEVNULL, "stderr": screen}
        async with started(pipeline, "submit", "--json", "--file", str(file), **streams) as process:
            out, _ = await asyncio.wait_for(process.communicate(), 60.0)
        assert process.returncode == 0
        assert len(records(out.decode())) == 4_000
        assert b" of 4,000, " in seen
        await eventually(lambda: seen.rfind(b"\x1b[?25h") > seen.rfind(b"\x1b[?25l") > -1, what="the cursor")


async def test_statistics_name_what_to_start(tmp_path: Path) -> None:
    """No picture of nothing: one line with the cure, exit 2."""
    ended = await command("stats", "--watch", "--url", "http://127.0.0.1:1")
    assert ended.code == 2
    assert len(ended.err.splitlines()) == 1
