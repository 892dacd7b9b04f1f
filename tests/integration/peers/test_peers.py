"""The harness of peers, with a peer that our own environment can run; the real ones are too large for the tests."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import psutil
import pytest

from inferq.errors import OperatorError
from loadgen.childwork import ask
from loadgen.figures import Figure
from loadgen.peers.__main__ import main
from loadgen.peers.answers import Asked, Known
from loadgen.peers.bench import Bench, report, surroundings
from loadgen.peers.measuring import Effort, Task, our_arm, peer_arm
from loadgen.peers.roster import PEERS, Peer
from loadgen.peers.running import running
from loadgen.peers.servers.order import Order
from tests.tinymodel import LABELS, MAX_LENGTH, make_tiny_model

TEXTS = ("good plot", "bad film", "good good film", "bad")
PYTHON = Path(sys.executable)


def plain(orders: str = "", *, distributions: tuple[str, ...] = ("starlette",)) -> Peer:
    """Return the plain peer with what it is ordered to do."""
    return Peer(
        name="plain",
        title="Plain",
        distributions=distributions,
        programs={"front": ("-m", "tests.integration.peers.plainpeer")},
        wait_ms=0,
        settings="none",
        lacks="batches",
        env={"PLAIN_PEER": orders},
    )


@pytest.fixture
def order(tmp_path: Path) -> Order:
    """What a peer is told about a tiny model."""
    folder = make_tiny_model(tmp_path / "tiny")
    return Order(
        folder=str(folder),
        labels=LABELS,
        max_length=MAX_LENGTH,
        pad_id=0,
        threads=1,
        workers=1,
        rows=16,
        port=0,
        wait_ms=0,
    )


async def task_of(order: Order, rates: Mapping[float, float]) -> Task:
    """Return a short task, its answers from the bare model."""
    asked = Asked(model=order.folder, texts=list(TEXTS))
    known = await ask("loadgen.peers.answers", asked, Known, within_s=60)
    return Task(
        model=order.folder,
        order=order,
        rates=rates,
        effort=Effort(seconds=1.0, first_s=0.2, warm_s=0.2),
        seed=0,
        texts=TEXTS,
        known=known.scores,
        say=lambda text: None,
    )


async def test_a_peer_is_measured_at_each_level_and_at_saturation(order: Order) -> None:
    """All requests are answered, times and CPU are there, and more is done at saturation than was offered."""
    found = await peer_arm(plain(), await task_of(order, {0.3: 30.0, 0.6: 60.0}), python=PYTHON)
    assert [level.share for level in found.levels] == [0.3, 0.6]
    for level in found.levels:
        assert level.answered == level.offered > 0, level
        assert 0 < level.p50_ms <= level.p99_ms
        assert level.cpu_ms > 0
        assert not level.errors
    assert found.saturated_per_s > 60
    assert not found.refused


async def test_levels_far_above_saturation_are_left_out(order: Order) -> None:
    """They would cost their time and tell nothing; lower ones are run."""
    said: list[str] = []
    task = replace(await task_of(order, {0.3: 30.0, 0.6: 100_000.0}), say=said.append)
    found = await peer_arm(plain(), task, python=PYTHON)
    assert [level.share for level in found.levels] == [0.3]
    assert "  plain: 60%, 100000/s, is left out, being far above saturation" in said


async def test_a_peer_that_answers_otherwise_than_the_model_is_not_measured(order: Order) -> None:
    """The error says how many answers differ."""
    with pytest.raises(OperatorError, match="Plain answers 4 of 4 texts otherwise than the bare model"):
        await peer_arm(plain("wrong"), await task_of(order, {0.3: 30.0}), python=PYTHON)


@pytest.mark.alone
async def test_ours_is_measured_to_the_pushed_frame_and_at_saturation(order: Order) -> None:
    """At a level every job is pushed; a model that takes 100 ms for 16 does 160 a second for 128 that wait."""
    task = replace(await task_of(order, {0.3: 30.0}), model="simulated:20,5", texts=(), known=())
    found = await our_arm("streams", task)
    assert found.levels[0].answered == found.levels[0].offered > 0
    assert found.levels[0].p50_ms > 20
    assert 80 < found.saturated_per_s < 200
    assert not found.refused


async def test_our_answers_are_compared_as_well(order: Order) -> None:
    """Of four, the one that the bare model is said to answer otherwise is found, and the others agree."""
    task = await task_of(order, {0.3: 30.0})
    with pytest.raises(OperatorError, match="ours answers 1 of 4 texts otherwise than the bare model"):
        await our_arm("streams", replace(task, known=[*task.known[:3], task.known[0]]))


async def test_a_peer_that_ends_is_said_with_its_last_line(order: Order) -> None:
    """Nobody waits for it any longer."""
    with pytest.raises(OperatorError, match="Plain ended: front: it does not feel like it"):
        async with running(plain("ends"), order, python=PYTHON):
            pass


async def test_nothing_of_a_peer_outlives_its_measuring(order: Order, tmp_path: Path) -> None:
    """Not even a process that left its parent's session and does not end when it is asked to."""
    record = tmp_path / "left"
    async with running(plain(f"leaves {record}"), order, python=PYTHON) as there:
        left = psutil.Process(int(record.read_text()))
        front = psutil.Process(there.pids["front"])
        assert left.is_running()
        assert os.getsid(left.pid) == left.pid
    for process in (left, front):
        assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


async def test_rounds_end_in_a_report_that_names_what_could_not_be_measured(tmp_path: Path) -> None:
    """A peer in figures and words, and the one that is not installed with its reason."""
    shown: list[Figure] = []
    missing = plain(distributions=("no-such-distribution",))
    bench = Bench(
        models={"builtin": "builtin"},
        peers={"plain": plain(), "mosec": missing},
        brokers=[],
        python=PYTHON,
        effort=Effort(seconds=1.0, first_s=0.2, warm_s=0.2),
        rounds=1,
        say=lambda text: None,
        show=shown.extend,
    )
    outcomes, versions = await bench.run()
    assert outcomes[0].names() == ["plain"]
    assert outcomes[0].failed() == {"mosec": "no-such-distribution not installed in the peers' environment"}
    assert "peers builtin, plain, saturation" in {figure.name for figure in shown}
    page = report(
        outcomes,
        versions,
        about=surroundings({"builtin": "builtin"}),
        words=["make", "bench-peers"],
        began=datetime(2026, 5, 4, tzinfo=UTC),
        folder=tmp_path,
    )
    assert page.name == "2026-05-04-peers.md"
    words = page.read_text()
    assert "- mosec could not be measured: no-such-distribution not installed" in words
    assert all(peer.lacks in words for peer in PEERS.values())
    data = msgspec.json.decode(page.with_suffix(".json").read_bytes())
    assert set(data["outcomes"][0]["rounds"][0]["arms"]) == {"plain"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing_running(number: signal.Signals) -> None:
    """Ctrl-C and SIGTERM in mid-run end what was started, in order, with one line and a status of their own."""
    argv = [sys.executable, "-m", "loadgen.peers", "--kind", "builtin", "--broker", "streams", "--peer"]
    argv += ["mosec", "--seconds", "1", "--no-report", "--python", sys.executable]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as run:
        try:
            assert run.stderr is not None, "it has a pipe"
            # Ours comes first, and what it started is there once it answers.
            said = ""
            while "ours (streams): answers after" not in said:
                line = run.stderr.readline()
                assert line, said
                said += line
            children = psutil.Process(run.pid).children(recursive=True)
            assert len(children) >= 3, said
            run.send_signal(number)
            rest = run.stderr.read()
            assert run.wait(30) == 130, rest
            assert "peers: interrupted" in rest
            assert "Traceback" not in rest
            _, alive = psutil.wait_procs(children, timeout=10)
            assert not [one for one in alive if one.status() != psutil.STATUS_ZOMBIE]
        finally:
            run.kill()


def test_without_the_peers_environment_one_line_says_how_to_make_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is measured, and the status tells."""
    assert main(["--quick", "--python", str(tmp_path / "python")]) == 2
    assert "make bench-peers makes the peers' environment" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [["--rounds", "0"], ["--seconds", "0.5"], ["--kind", "full-size"], ["--peer", "nobody"]],
)
def test_options_out_of_bounds_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is started."""
    with pytest.raises(SystemExit):
        main(arguments)
    assert arguments[0] in capsys.readouterr().err
