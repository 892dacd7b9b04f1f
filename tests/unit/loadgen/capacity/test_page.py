"""What the page about capacity says, and that it is the one in docs."""

import runpy
from pathlib import Path

import msgspec
import pytest

from loadgen.capacity.costs import Costs, EngineCosts, JobCosts, decode, encode
from loadgen.capacity.page import page

ROOT = Path(__file__).parents[4]
BENCHMARKS = ROOT / "docs" / "benchmarks"
NAMES = ("ingress", "valkey", "batcher", "notifier")


def job(broker: str, us: float) -> JobCosts:
    """Return costs of a job that takes so much everywhere."""
    names = [*NAMES, *(["rabbitmq"] if broker == "rabbitmq" else [])]
    return JobCosts(
        broker=broker,
        rate=2_000.0,
        jobs=1_000,
        mean_batch=8.0,
        cpu_us=dict.fromkeys(names, us) | {"notifier": 5.0},
        watched_us=dict.fromkeys(names, us),
        webhook_us=dict.fromkeys(names, 1_000.0),
        redis_commands=10.0,
        record_bytes=1_250.0,
        waiting_bytes=1_500.0,
        written_bytes=2_000.0,
        network_bytes=4_000.0,
        pushed_bytes=1_000.0,
    )


def costs(*jobs: JobCosts) -> Costs:
    """Return a run with an engine of 6 ms a job."""
    return Costs(
        at="2026-01-31T12:00:00+00:00",
        machine="2 cores",
        programs="Valkey 9",
        text_bytes=112.0,
        socket_kib=4.0,
        jobs=list(jobs),
        engines=[EngineCosts(model="a-model", cpu_us=6_000.0, mean_batch=7.5)],
    )


def test_a_page_of_both_brokers() -> None:
    """Costs, bounds, both loads and memory, with a column for each."""
    text = page(costs(job("streams", 40.0), job("rabbitmq", 60.0)))
    assert "| Redis (Valkey) | 40 µs, 15,000 jobs/s | 60 µs, 10,000 jobs/s |" in text
    assert "| RabbitMQ node | none | 60 µs, 10,000 jobs/s |" in text
    assert "| a notifier, for a job that it only hears of | 5.0 µs | 5.0 µs |" in text
    assert "| a-model | 6,000 µs, 100 jobs/s | 7.5 |" in text
    assert (
        "- **Redis Streams**: 15,000 jobs/s, by its Redis, whose commands run on one core; then 60,000/s"
        in text
    )
    small, large = text.split("## 10,000 jobs a second")[1].split("## 1,000,000 jobs a second")
    assert "| deployments | 1 | 1 |" in small
    assert "one deployment carries it." in small
    assert "| engines, a-model | 100 cores, 4 hosts | 100 cores, 4 hosts |" in small
    assert "| ingress | 1 core | 1 core |" in small
    assert "| deployments | 67 | 100 |" in large
    assert "one deployment carries 10,000/s, so 100 stand side by side" in " ".join(large.split())
    assert "| network, all links together | 40.0 Gbit/s | 40.0 Gbit/s |" in large
    assert "A million open sockets take 100 notifiers" in text


def test_the_page_says_of_which_rate_its_costs_are() -> None:
    """And that its bounds and counts are rather on the safe side, once where they stand beside each other."""
    text = " ".join(page(costs(job("streams", 40.0), job("rabbitmq", 60.0))).split())
    assert "at 2,000 jobs/s on Redis Streams, 2,000 jobs/s on RabbitMQ" in text
    assert "follow from the costs at 2,000 jobs/s, and none was run into" in text
    assert "these figures are rather too high" in text


def test_memory_is_said_in_one_unit() -> None:
    """That of a minute's records beside that of a million jobs that wait: 1,250 and 1,500 bytes each."""
    text = page(costs(job("streams", 40.0)))
    assert "| Redis Streams | 0.7 GiB | 69.8 GiB | 1.4 GiB |" in text
    assert "to rewrite its append-only file" in " ".join(text.split())


def test_a_page_of_one_broker_has_no_column_for_the_other() -> None:
    """Nor a row for its node; what costs nothing is said to be without end."""
    free = msgspec.structs.replace(job("streams", 40.0), cpu_us={})
    text = page(costs(free))
    assert "RabbitMQ node" not in text
    assert "then without end/s" in text


def test_lines_are_short_enough_to_read() -> None:
    """But for tables, whose rows are one line each."""
    text = page(costs(job("streams", 40.0), job("rabbitmq", 60.0)))
    assert max(len(line) for line in text.splitlines() if not line.startswith("|")) <= 130
    assert text.endswith("there to be measured.\n")


@pytest.mark.skipif(not (BENCHMARKS / "capacity.json").is_file(), reason="nothing was measured yet")
def test_the_page_in_docs_is_what_the_script_writes() -> None:
    """From the costs beside it."""
    found = decode((BENCHMARKS / "capacity.json").read_bytes())
    assert (BENCHMARKS / "capacity.md").read_text("utf-8") == page(found), "run scripts/capacity.py"


def test_the_script_writes_and_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A page that differs is out of date, and is not touched by a check."""
    main = runpy.run_path(str(ROOT / "scripts" / "capacity.py"))["main"]
    known, target = costs(job("streams", 40.0)), tmp_path / "page.md"
    (tmp_path / "costs.json").write_bytes(encode(known))
    argv = ["--costs", str(tmp_path / "costs.json"), "--page", str(target)]
    assert main([*argv, "--check"]) == 1
    assert not target.exists()
    assert main(argv) == 0
    assert target.read_text("utf-8") == page(known)
    assert main([*argv, "--check"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "page.md is up to date"
