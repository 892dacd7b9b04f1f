"""The generator's process against servers that answer as told, and against a real pipeline."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import msgspec
import psutil
import pytest

import loadgen.__main__
from inferq.errors import OperatorError
from inferq.ports import LOOPBACK, free_port
from loadgen.childwork import ask
from loadgen.companion import companion
from loadgen.generator import closed, pool, selfcheck, target
from loadgen.generator import command as loads
from loadgen.generator.closed import Answers, Closed
from loadgen.generator.plan import Follow, Inputs, Plan, Schedule
from loadgen.generator.report import Report
from loadgen.generator.run import generated
from loadgen.generator.said import Said
from loadgen.generator.wire import Address, Poll
from loadgen.ingressload import keyed
from loadgen.little import Window, checked
from loadgen.servedapp import served
from tests.fakeingress import HINTED, REFUSED, FakeIngress, answer, fake_ingress, final, snapshots, text_frame
from tests.support import eventually

FEW = Schedule(rate=200.0, seconds=0.1)
WITHIN_S = 60.0


def plan_for(
    it: FakeIngress, schedule: Schedule = FEW, *, follow: Follow = "nothing", patience_s: float = 5.0
) -> Plan:
    """Return a plan for a fake, over few connections."""
    return Plan(url=it.url, schedule=schedule, follow=follow, connections=4, patience_s=patience_s)


def window_of(found: Report) -> Window:
    """Return what Little's law is about: jobs from their 202 to their frame."""
    pushed, submit = found.pushed, found.submit
    assert found.mean_in_system is not None
    assert pushed.mean_ms is not None
    assert submit.mean_ms is not None
    assert pushed.max_ms is not None
    return Window(
        seconds=found.seconds,
        mean_in_system=found.mean_in_system,
        rate=found.accepted / found.seconds,
        mean_s=(pushed.mean_ms - submit.mean_ms) / 1000,
        at_open=found.at_open,
        at_close=found.at_close,
        longest_s=pushed.max_ms / 1000,
    )


@pytest.mark.parametrize("follow", ["push", "records"])
async def test_a_real_pipeline_is_followed_to_the_end(follow: Follow) -> None:
    """Every job is done, by whichever way; batches, percentiles and CPU are there, and Little's law holds."""
    async with keyed("streams", model="simulated:1,1") as ours:
        plan = Plan(
            url=ours.url,
            key=ours.key,
            pids=ours.pids,
            follow=follow,
            warm_s=0.5,
            schedule=Schedule(kind="poisson", rate=100.0, seconds=2.0),
            budget_ms=20_000.0,
        )
        found = await generated(plan)
    assert found.errors == {}
    assert found.statuses == {"done": found.offered}
    assert found.offered == found.accepted == found.submit.count == found.stored.count == found.in_time > 0
    assert found.pushed.count == (found.offered if follow == "push" else 0)
    assert 1 <= found.batches.count <= found.offered
    assert found.batches.compute_ms is not None
    assert found.batches.compute_ms > 0
    assert sum(one.due for one in found.timeline) == sum(one.ended for one in found.timeline) == found.offered
    assert set(found.cpu_s) == set(ours.pids)
    assert found.own_cpu_s > 0
    assert found.plan == msgspec.structs.replace(plan, key="")
    if follow == "push":
        assert checked(window_of(found)).holds


async def test_without_the_key_all_is_refused() -> None:
    """By status, and nothing is followed."""
    async with keyed("streams", model="simulated:0,0") as ours:
        found = await generated(Plan(url=ours.url, schedule=FEW))
    assert (found.errors, found.accepted, found.statuses) == ({"401": 20}, 0, {})


async def test_errors_by_kind() -> None:
    """Refusals by status, one that gives no hint as hurried too, what is lost or no answer; the run goes on."""
    told = [REFUSED, HINTED, b"", b"SSH-2.0\r\n\r\n", answer("200 OK", b"{}"), answer("fine", b"")]
    async with fake_ingress(answers=told) as it:
        found = await generated(plan_for(it))
    assert found.errors == {"200": 1, "429": 1, "503": 1, "bad_answer": 2, "connection_lost": 1, "hurried": 1}
    assert (found.offered, found.accepted) == (20, 14)
    assert found.statuses == {}
    # Three were lost and opened anew, and one is how it is seen whether anybody is there.
    assert it.connections <= 4 + 3 + 1
    assert json.loads(it.submits[0]).keys() == {"text"}


async def test_an_answer_that_names_no_job_is_none() -> None:
    """When its job is to be followed."""
    told = [answer("202 Accepted", b"[]"), answer("202 Accepted", b'{"job_id":""}')]
    async with fake_ingress(
        answers=told, record=lambda one: answer("200 OK", json.dumps(final(one)).encode())
    ) as it:
        found = await generated(plan_for(it, follow="records"))
    assert (found.errors, found.statuses) == ({"bad_answer": 2}, {"done": 18})


async def test_pushes_are_followed_in_groups() -> None:
    """Each job is subscribed to once; a batch of all is counted once."""
    async with fake_ingress(on_subscribe=snapshots) as it:
        found = await generated(plan_for(it, follow="push"))
    assert (found.errors, found.statuses) == ({}, {"done": 20})
    assert sorted(one for group in it.subscribed for one in group) == sorted(f"job-{n}" for n in range(20))
    assert (found.batches.count, found.batches.sizes, found.batches.compute_ms) == (1, {4: 1}, 1.0)
    assert found.stored.p50_ms == pytest.approx(25.5, rel=0.001)


async def test_what_is_not_pushed() -> None:
    """A refused subscription, a job that stays open and a connection that ends are told apart."""

    def frames(job_ids: list[str]) -> bytes:
        if "job-0" in job_ids:
            return b""
        return b"".join(
            text_frame({"type": "error", "job_id": one, "code": "unknown_job", "detail": ""})
            if one == "job-1"
            else text_frame({"type": "snapshot", "job_id": one, "seq": 1, "job": final(one, "queued")})
            if one == "job-2"
            else snapshots([one])
            for one in job_ids
        )

    async with fake_ingress(on_subscribe=frames) as it:
        found = await generated(
            plan_for(it, Schedule(rate=100.0, seconds=0.2), follow="push", patience_s=0.3)
        )
    assert found.errors["push_refused"] == 1
    assert found.errors["not_ended"] == 1
    assert found.errors["push_lost"] >= 1
    assert sum(found.errors.values()) + found.done == found.accepted == 20


async def test_a_notifier_that_refuses_is_a_lost_push() -> None:
    """And so is one that is not there."""
    nowhere = f"ws://{LOOPBACK}:{free_port()}/ws/jobs/x"
    told = [
        answer("202 Accepted", json.dumps({"job_id": str(n), "stream_url": nowhere}).encode())
        for n in range(20)
    ]
    async with fake_ingress(answers=told) as it:
        found = await generated(plan_for(it, follow="push"))
    assert (found.errors, found.accepted) == ({"push_lost": 20}, 20)


@pytest.mark.parametrize(
    "stream_url", ["ws://192.0.2.1:9/ws/jobs/x", "wss://127.0.0.1:9/ws/jobs/x", "ws://example.com", "", "//["]
)
async def test_a_key_goes_to_the_targets_host_alone(stream_url: str) -> None:
    """Wherever else a 202 points, nobody is connected to, and the jobs are counted."""
    bodies = [json.dumps({"job_id": str(n), "stream_url": stream_url}).encode() for n in range(20)]
    told = [answer("202 Accepted", body) for body in bodies]
    async with fake_ingress(answers=told) as it:
        found = await generated(msgspec.structs.replace(plan_for(it, follow="push"), key="secret"))
    kind = "push_lost" if stream_url == "//[" else "push_elsewhere"
    assert (found.errors, found.accepted) == ({kind: 20}, 20)


async def test_ids_that_cannot_be_followed_are_counted() -> None:
    """None, one longer than any, and one that another job has; every request is counted once."""
    async with fake_ingress(on_subscribe=lambda _: text_frame({"type": "ping"})) as it:
        url = f"ws://{LOOPBACK}:{it.port}/ws"
        ids = ["", "x" * 300_000] + ["same"] * 18
        it.answers = [
            answer("202 Accepted", json.dumps({"job_id": one, "stream_url": url}).encode()) for one in ids
        ]
        found = await generated(plan_for(it, follow="push", patience_s=0.3))
    # One on each of the four feeds is followed.
    assert found.errors == {"bad_answer": 16, "not_ended": 4}


@pytest.mark.parametrize("told", [b"HTTP/1.1 fine\r\nContent-Length: 0\r\n\r\n", b"SSH"])
async def test_a_server_that_answers_nonsense_for_a_record_does_not_keep_a_run(told: bytes) -> None:
    """It is asked again until patience is over."""
    async with fake_ingress(record=lambda _: told) as it:
        found = await generated(plan_for(it, follow="records", patience_s=0.5))
    assert sum(found.errors.values()) == found.accepted == 20
    assert set(found.errors) <= {"bad_answer", "connection_lost"}


async def test_a_stamp_that_is_none_does_not_keep_a_run() -> None:
    """Its job is done all the same, though nobody knows when."""
    record = final("x") | {"created_at": "soon"}
    async with fake_ingress(record=lambda _: answer("200 OK", json.dumps(record).encode())) as it:
        found = await generated(plan_for(it, follow="records"))
    assert (found.statuses, found.errors, found.in_time) == ({"done": 20}, {}, 0)


async def test_records_that_are_not_final() -> None:
    """They are read again until they are, or patience is over; one that is gone is said to be."""
    reads: dict[str, int] = {}

    def record(job_id: str) -> bytes:
        reads[job_id] = reads.get(job_id, 0) + 1
        if job_id == "job-0":
            return answer("404 Not Found", b"{}")
        if job_id == "job-1":
            return answer("200 OK", b"no record")
        ended = job_id != "job-2" and (job_id != "job-3" or reads[job_id] > 1)
        return answer("200 OK", json.dumps(final(job_id, "done" if ended else "running")).encode())

    async with fake_ingress(record=record) as it:
        found = await generated(plan_for(it, follow="records", patience_s=1.0))
    assert found.errors == {"bad_answer": 1, "not_ended": 1, "record_404": 1}
    assert found.statuses == {"done": 17}
    assert reads["job-3"] == 2


async def test_requests_without_an_answer() -> None:
    """They are counted once patience is over, and the run ends."""
    async with fake_ingress(stall_s=1.0, every_s=1.0) as it:
        it.stall = lambda: None  # type: ignore[method-assign]  # this server never stalls
        it.answers = [b"HTTP/1.1 102 Processing\r\n"] * 20
        found = await generated(plan_for(it, patience_s=0.2))
    assert found.errors == {"no_answer": 20}


async def test_a_server_that_goes_away_does_not_end_a_run() -> None:
    """What was due afterwards is counted as sent to nobody, and the run ends in time."""
    async with served("loadgen.generator.responder") as responder:
        plan = Plan(
            url=responder.url, follow="nothing", schedule=Schedule(rate=200.0, seconds=2.0), connections=4
        )
        seconds: list[int] = []

        def gone_after_a_second(progress: object) -> None:
            if not seconds:
                os.kill(responder.pid, signal.SIGKILL)
            seconds.append(1)

        found = await generated(plan, say=gone_after_a_second)
    assert 150 <= found.accepted <= 399
    assert set(found.errors) <= {"no_connection", "connection_lost"}
    assert found.accepted + sum(found.errors.values()) == found.offered == 400
    assert seconds


async def test_nobody_there_is_an_error() -> None:
    """Nothing is begun."""
    with pytest.raises(ConnectionError, match="refused"):
        await generated(Plan(url=f"http://{LOOPBACK}:{free_port()}", schedule=FEW))


@pytest.mark.parametrize(
    "plan",
    [
        Plan(connections=0),
        Plan(schedule=Schedule(rate=1e9)),
        Plan(inputs=Inputs(distinct=10, exponent=9.0)),
    ],
    ids=["at-once", "schedule", "texts"],
)
async def test_a_plan_out_of_bounds_is_refused(plan: Plan) -> None:
    """Before anybody is asked, wherever the bound stands."""
    with pytest.raises(OperatorError):
        await generated(plan)


async def test_the_generator_ends_with_whoever_started_it() -> None:
    """Its standard input closes, and it does not go on for the hour that it was told."""
    async with fake_ingress() as it:
        async with companion(
            "loadgen.generator", plan_for(it, Schedule(rate=10.0, seconds=3_600.0))
        ) as process:
            await process.hear(Said, within_s=WITHIN_S)
            pid = process.pid
        await eventually(lambda: not psutil.pid_exists(pid), what="the end of the process")


@pytest.mark.alone
async def test_an_open_loop_shows_a_stall_that_a_closed_one_hides() -> None:
    """A server stands still a tenth of the time: of an open loop's p99 that is most, of a closed loop's nothing."""
    stall_s, every_s = 0.4, 4.0
    async with fake_ingress(stall_s=stall_s, every_s=every_s) as it:
        schedule = Schedule(rate=100.0, seconds=2 * every_s)
        seen = await generated(
            Plan(url=it.url, schedule=schedule, follow="nothing", connections=16, patience_s=10.0)
        )
    async with fake_ingress(stall_s=stall_s, every_s=every_s) as it:
        order = Closed(url=it.url, requests=4_000, threads=4)
        hidden = await ask("loadgen.generator.closed", order, Answers, within_s=WITHIN_S)
    assert seen.accepted == 800
    assert hidden.accepted == 4_000
    assert seen.submit.p99_ms is not None
    assert hidden.submit.p99_ms is not None
    # 10 % of the requests were due in a stall, so a tenth of those waited for nine tenths of it and more.
    assert seen.submit.p99_ms > 0.75 * stall_s * 1000
    assert hidden.submit.p99_ms < 0.25 * stall_s * 1000
    # It met the stall as well, with a request for each of its threads.
    assert hidden.submit.max_ms is not None
    assert hidden.submit.max_ms > 0.75 * stall_s * 1000


async def test_a_closed_loop_counts_what_goes_wrong() -> None:
    """By kind; a lost connection is opened anew, and each request is counted once."""
    async with fake_ingress(answers=[REFUSED, b"", HINTED]) as it:
        order = Closed(url=it.url, requests=20, threads=2)
        found = await ask("loadgen.generator.closed", order, Answers, within_s=WITHIN_S)
    assert found.errors == {"429": 1, "503": 1, "connection_lost": 1}
    assert (found.accepted, found.submit.count) == (17, 17)
    assert len(set(it.submits)) == 20


async def test_a_closed_loop_ends_when_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections that are taken and dropped are no answers; what was not sent is counted."""
    monkeypatch.setattr(closed, "SILENCE_S", 0.5)
    async with fake_ingress(answers=[b""] * 100_000) as it:
        order = Closed(url=it.url, requests=100_000, threads=16)
        async with asyncio.timeout(WITHIN_S):
            found = await asyncio.to_thread(closed.carry_out, order)
    assert found.accepted == 0
    assert found.errors["not_sent"] > 90_000
    assert sum(found.errors.values()) == 100_000


async def test_a_closed_loop_ends_with_its_command() -> None:
    """However that ends, and whatever it still waits for."""
    async with fake_ingress(answers=[b"HTTP/1.1 102 Processing\r\n"] * 100) as it:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "loadgen", "closed", "--target", it.url, "--threads", "2"),
            stdout=asyncio.subprocess.DEVNULL,
        )
        await eventually(lambda: len(it.submits) == 2, what="its requests")
        (child,) = psutil.Process(process.pid).children()
        process.kill()
        await process.wait()
        await eventually(
            lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE,
            what="the end of the process",
        )


def test_a_connection_stands_among_the_free_ones_once() -> None:
    """However often it is lost while nobody uses it."""
    poll = Poll()
    lines = pool.Pool(
        poll, Address(LOOPBACK, free_port()), 3, answered=lambda *_: None, failed=lambda *_: None
    )
    for second in range(1, 6):
        lines.open(float(second))
        while any(line.wire for line in lines._lines if line not in lines._lost):
            assert poll.wait(WITHIN_S)
            poll.take(1)
    assert len(lines.free) == 3
    poll.close()


async def test_the_check_of_the_generator_itself() -> None:
    """A short form: every rate gives its figures, and all is answered."""
    said: list[str] = []
    figures = await selfcheck.figures(rounds=1, seconds=0.5, say=said.append)
    assert len(figures) == 4 * len(selfcheck.RATES) == 4 * len(said)
    answered = [one.value for one in figures if "answered" in one.name]
    assert answered == pytest.approx(list(selfcheck.RATES), rel=0.01)
    assert sum(bool(one.goal) for one in figures) == 3


def test_a_crowded_connection_takes_no_more() -> None:
    """The bound of what waits on all connections is far above what a stalled second leaves."""
    assert pool.MOST_WAITING * Plan().connections > 8_000


async def command(*argv: str) -> tuple[int, str, str]:
    """Run `python -m loadgen` and return its status, its output and its errors."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "loadgen",
        *argv,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_the_command_prints_and_writes_a_report(tmp_path: Path) -> None:
    """Against a real pipeline; the report holds no key, and can be read back."""
    out = tmp_path / "report.json"
    (tmp_path / "texts").write_text("a fine film\n\na bad film\n")
    async with keyed("streams", model="simulated:1,1") as ours:
        (tmp_path / "key").write_text(ours.key)
        code, said, _ = await command(
            *("--url", ours.url, "--rate", "50", "--seconds", "1", "--key-file", str(tmp_path / "key")),
            *("--text-file", str(tmp_path / "texts"), "--budget", "20000", "--out", str(out)),
        )
        closed_code, closed_said, _ = await command(
            *("closed", "--target", ours.url, "--key-file", str(tmp_path / "key"), "--requests", "50"),
            *("--threads", "4"),
        )
        batcher = ours.deployment._pipeline.urls.metrics["batcher-1"].removesuffix("/metrics")
        refused = await command("closed", "--target", batcher)
        notifier = ours.deployment.settings.stream_url.replace("ws://", "http://")
        stranger = await command("run", "--url", notifier)
    found = msgspec.json.decode(out.read_bytes(), type=Report)
    assert found.done == 50
    assert ours.key.encode() not in out.read_bytes()
    assert found.plan.inputs.texts == ("a fine film", "a bad film")
    assert code == (2 if found.invalid else 0)
    assert "50 jobs in 1 s (constant), 50 accepted, 50 done" in said
    assert said.count("INVALID") == len(found.invalid)
    assert closed_code == 0
    assert "closed loop: hides stalls" in closed_said
    assert "50 requests over 4 threads, 50 accepted, errors: none" in closed_said
    assert refused[0] == stranger[0] == 2
    assert "is a batcher: it takes its jobs from the queue alone" in refused[2]
    assert "is no ingress" in stranger[2]


async def test_a_load_that_is_refused_ends_with_1_and_an_invalid_one_with_2(tmp_path: Path) -> None:
    """Whoever scripts a load learns of both."""
    out = tmp_path / "report.json"
    async with fake_ingress(answers=[REFUSED]) as it:
        code, said, _ = await command(
            *("--url", it.url, "--rate", "20", "--seconds", "0.5", "--follow", "nothing", "--out", str(out))
        )
    invalid = "INVALID" in said
    assert code == (2 if invalid else 1)
    assert "errors: 1 503, 1 hurried" in said


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--url", "http://example.com"], "--allow-remote"),
        (["closed", "--target", "http://192.0.2.1:8080"], "--allow-remote"),
        (["--url", "http://[2001:db8::1]:8080"], "--allow-remote"),
        (["--url", "8080"], "is no URL"),
        (["--url", "https://127.0.0.1:8080"], "http://HOST:PORT"),
        (["closed", "--url", "https://127.0.0.1:8080"], "http://HOST:PORT"),
        (["closed", "--path", "x y"], "path"),
        (["--url", "http://127.0.0.1:99999"], "is no URL"),
        (["--url", "http://[::1"], "is no URL"),
        (["--url", "http://a..b", "--allow-remote"], "no answer from"),
        (["--distinct", "-1"], "distinct"),
        (["--out", "/dev/null/report.json"], "cannot be written"),
        (["--text-file", "/dev/zero"], "is longer than"),
        (["--rate", "0"], "--rate"),
        (["--rate", "1e9"], "1,000,000 requests at most"),
        (["--rate", "-1"], "--rate"),
        (["--rate", "nan"], "--rate"),
        (["--seconds", "0"], "seconds"),
        (["--seconds", "86401"], "86400"),
        (["--connections", "0"], "connections"),
        (["--schedule", "trace"], "--trace FILE"),
        (["--trace", "x"], "--trace FILE"),
        (["--schedule", "trace", "--trace", "/dev/null/none"], "cannot be read"),
        (["--text-file", "/dev/null/none"], "cannot be read"),
        (["--text-file", "/dev/null"], "must hold from 1"),
        (["closed", "--requests", "0"], "--requests goes from 1 to 1,000,000"),
        (["closed", "--requests", "1000001"], "--requests goes from 1 to 1,000,000"),
        (["closed", "--threads", "0"], "--threads goes from 1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_a_load_refuses(argv: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A target beyond this host, and what is out of bounds: one line, and nothing is sent."""
    assert loadgen.__main__.main(argv) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert says in said.err
    assert said.err.count("\n") == 1


def test_files_of_a_load_are_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A trace that is none, and texts that are not UTF-8."""
    bad = tmp_path / "bad"
    bad.write_bytes(b"one\n\xff")
    assert loadgen.__main__.main(["--text-file", str(bad)]) == 2
    bad.write_text("0.1\nsoon\n")
    assert loadgen.__main__.main(["--schedule", "trace", "--trace", str(bad)]) == 2
    said = capsys.readouterr().err
    assert "is not UTF-8" in said
    assert "a time in seconds on each line" in said


def test_a_file_of_a_load_is_read_to_its_bound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line more is refused, and blank ones are none."""
    long = tmp_path / "long"
    long.write_text("\n".join(map(str, range(1_000_001))))
    assert loadgen.__main__.main(["--text-file", str(long)]) == 2
    assert "from 1 to 100,000 texts" in capsys.readouterr().err
    assert len(loads._times(long)) == 1_000_001
    long.write_text("0.5\n\n \n0.7\n")
    assert loads._times(long) == [0.5, 0.7]


async def test_a_trace_that_is_cut_is_said_to_be(tmp_path: Path) -> None:
    """How many of its times are not sent; a trace that fits is no news."""
    trace = tmp_path / "trace"
    trace.write_text("0\n0.1\n0.2\n5\n6\n")
    given = ("--schedule", "trace", "--trace", str(trace), "--follow", "nothing", "--seconds")
    async with fake_ingress() as it:
        _, said, cut = await command("--url", it.url, *given, "0.5")
        trace.write_text("0\n0.1\n")
        _, _, whole = await command("--url", it.url, *given, "0.5")
    assert "3 jobs in 0.5 s (trace)" in said
    assert cut == "loadgen: 2 of the trace's 5 times are past --seconds 0.5 and are not sent\n"
    assert whole == ""


@pytest.mark.parametrize(
    ("states", "says"),
    [
        ([], "no batcher is there"),
        (["loading", "restarting"], "no batcher takes jobs yet"),
        (["loading", "idle"], ""),
        (["busy"], ""),
    ],
)
async def test_a_load_beside_no_ready_batcher_says_so(
    states: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It begins all the same: what a pipeline does then may be what is asked."""
    async with fake_ingress(stats={"batchers": [{"state": one} for one in states]}) as it:
        await target.ask(it.url, "")
    said = capsys.readouterr().err
    assert said == (f"loadgen: {says}: jobs wait until one does, and their times say so\n" if says else "")


async def test_stats_that_are_none_are_no_news(capsys: pytest.CaptureFixture[str]) -> None:
    """Another server's, or an older one's."""
    async with fake_ingress() as it:
        await target.ask(it.url, "")
    assert capsys.readouterr().err == ""
    assert target.none_takes(b"[]") == target.none_takes(b"not JSON") == ""


async def test_a_target_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the bound on the first question, not by that of any request."""
    monkeypatch.setattr(target, "ANSWERS_WITHIN_S", 0.05)
    hanging = asyncio.Event()

    async def hang(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hanging.wait()
        writer.close()

    server = await asyncio.start_server(hang, LOOPBACK, 0)
    url = f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
    async with asyncio.timeout(target.ANSWERS_WITHIN_S + 10):
        with pytest.raises(OperatorError, match=r"no answer from .* \(TimeoutError\)"):
            await target.ask(url, "")
    hanging.set()
    server.close()
    await server.wait_closed()


async def test_an_interrupted_load_says_so() -> None:
    """It ends at once with 130, one line, and without its generator."""
    async with fake_ingress() as it:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "loadgen", "--url", it.url, "--rate", "50", "--seconds", "600"),
            *("--follow", "nothing"),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        await eventually(lambda: it.submits, what="its requests")
        (child,) = psutil.Process(process.pid).children()
        process.send_signal(signal.SIGINT)
        _, said = await process.communicate()
    assert process.returncode == 130
    assert said == b"loadgen: interrupted: there is no report\n"
    assert not child.is_running()


# Ctrl-C in the midst of the imports, whatever the machine's pace.
INTERRUPTING = """
import os, runpy, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "loadgen.reports.benchcommand":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
runpy.run_module("loadgen", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("subcommand", ["run", "benchmark", "closed", "sweep", "cache"])
async def test_an_interrupt_while_a_load_is_still_starting_says_so(subcommand: str) -> None:
    """Its imports are no less interrupted than its load: 130 and one line, no traceback."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", INTERRUPTING, subcommand), stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate()
    assert (process.returncode, said) == (130, b"loadgen: interrupted: there is no report\n")
