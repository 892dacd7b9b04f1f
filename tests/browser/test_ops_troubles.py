"""The page of operations while something is away: what stands open, who rests, and what nobody has."""

import os
import re
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.acceptance.running import Up
from tests.browser.browsing import frozen, live, opened, picture, violations
from tests.browser.conftest import StartUp
from tests.browser.test_ops import tile
from tests.faultfile import FaultFile
from tests.support import wait_until
from tests.tensormodels import MODELS, write_model

# What is away is believed in for seconds each time, and several of these waits make up one test.
pytestmark = pytest.mark.timeout(240)
# An engine that is held still is not taken for one that hangs.
PATIENT = {"engine_timeout_ms": "600000", "hang_factor": "1000000", "stall_s": "600"}
# Whoever is dead is believed to live for ten seconds, and the page asks every two.
TOLD_MS = 30_000
_DRAWN = (
    "[...document.querySelectorAll('.chart')].every((one) => one.viewBox.baseVal.width === one.clientWidth)"
)


def looked_at(page: Page, name: str) -> None:
    """Everybody can read it, in both colours and on a narrow screen; pictures of it are kept."""
    before = page.viewport_size
    for how, dark, width in (("dark", True, 1200), ("narrow", False, 320), ("light", False, 1200)):
        page.emulate_media(color_scheme="dark" if dark else "light", reduced_motion="reduce")
        page.set_viewport_size({"width": width, "height": 800})
        # What is written into a chart keeps its size: it is drawn anew for the room that there is.
        wait_until(lambda: page.evaluate(_DRAWN), what="charts for this width")
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        picture(page, f"{name}-{how}", whole=True)
    page.set_viewport_size(before or {"width": 1200, "height": 800})


def accepted(up: Up, count: int) -> list[str]:
    """Have jobs accepted, and return their ids."""
    with httpx.Client(base_url=up.api, trust_env=False) as client:
        inputs = [{"text": f"text number {number}"} for number in range(count)]
        found = client.post("/v1/infer/batch", json={"inputs": inputs}).json()
    assert found["accepted"] == count
    return [one["job_id"] for one in found["jobs"]]


def record(up: Up, job_id: str) -> Any:
    """Return a job's record."""
    return httpx.get(f"{up.api}/v1/jobs/{job_id}", trust_env=False).json()


def test_an_engine_that_fails_rests_until_it_is_well(
    browser: Browser, start_up: StartUp, tmp_path: Path
) -> None:
    """Its breaker is shown as open, half-open and closed again, its batcher as resting; no job is lost."""
    faults = FaultFile(tmp_path / "faults")
    up = start_up(model=faults.model, breaker_open_ms="8000", **PATIENT)
    with opened(browser, f"{up.api}/ops") as (page, _):
        said, batcher = page.locator("#standing li"), page.locator("#batchers li")
        expect(said).to_have_text(["Both circuit breakers are closed."])
        expect(batcher).to_contain_text("idle")
        faults.order("raise")
        jobs = accepted(up, 8)
        expect(said).to_have_text(
            [
                re.compile(
                    r"^The breaker of \S+ to its engine is open, tries again in \d s: \d+ failures so far\.$"
                ),
                "The other circuit breaker is closed.",
            ],
            timeout=60_000,
        )
        expect(said.first).to_have_attribute("data-tone", "bad")
        expect(batcher).to_contain_text("resting")
        expect(batcher).to_have_attribute("data-tone", "warn")
        assert tile(page, "batchers") == "0 of 1"
        # They were given back, and wait as if they had never been taken.
        wait_until(lambda: tile(page, "waiting") == "8", what="eight that wait")
        looked_at(page, "breaker-open")
        with frozen(up.pid("engine")):
            faults.clear()
            expect(said.first).to_have_text(
                re.compile(
                    r"^The breaker of \S+ to its engine is half-open, being tried: \d+ failures so far\.$"
                ),
                timeout=TOLD_MS,
            )
            expect(said.first).to_have_attribute("data-tone", "warn")
            expect(batcher).to_contain_text("resting")
            looked_at(page, "breaker-half-open")
        expect(said).to_have_text(["Both circuit breakers are closed."], timeout=TOLD_MS)
        expect(batcher).to_have_text(re.compile("^(idle|busy) "))
        wait_until(lambda: {record(up, job)["status"] for job in jobs} == {"done"}, what="all jobs done")
        wait_until(lambda: tile(page, "waiting") == "0", what="an empty queue")
        assert tile(page, "batchers") == "1"


def test_a_redis_that_is_away_leaves_the_breakers_to_see(browser: Browser, start_up: StartUp) -> None:
    """While it is frozen what was shown stays and its breaker is told of; once it is back it is tried, and closes."""
    up = start_up(breaker_successes="1000")
    with opened(browser, f"{up.api}/ops", width=320) as (page, seen):
        said = page.locator("#standing li")
        live(page)
        expect(said).to_have_text(["Both circuit breakers are closed."])
        # While it is tried, too, those who come when enough do are refused.
        seen.expected.append("503")
        with frozen(up.pid("valkey")):
            expect(said.first).to_have_text(
                re.compile(r"^The breaker of \S+ to Redis is open: \d+ failures so far\.$"), timeout=60_000
            )
            expect(page.locator("#link-text")).to_have_text("no answer")
            expect(page.locator("#notice")).to_have_text(
                re.compile("These figures are of .*; the page asks again by itself")
            )
            assert tile(page, "batchers") == "1"
            looked_at(page, "redis-open")
        expect(said.first).to_have_text(
            re.compile(r"^The breaker of \S+ to Redis is half-open, being tried: \d+ failures so far\.$"),
            timeout=60_000,
        )
        looked_at(page, "redis-half-open")
        with httpx.Client(base_url=up.api, trust_env=False) as client:

            def closed() -> bool:
                client.get(f"/v1/jobs/{'0' * 32}")
                short = client.get("/stats").json()["circuit_breakers"]
                return {one["state"] for one in short} == {"closed"}

            wait_until(closed, 60.0, what="a closed breaker")
        expect(said).to_have_text(["Both circuit breakers are closed."], timeout=TOLD_MS)
        live(page)
        expect(page.locator("#notice")).to_be_empty()


@pytest.mark.usefixtures("rabbitmq_installed")
def test_a_broker_that_is_away_is_told_of(browser: Browser, start_up: StartUp) -> None:
    """While RabbitMQ is frozen submits open its breaker, and what is shown stays; once it is back two close it."""
    up = start_up(broker_url="rabbitmq")
    with (
        opened(browser, f"{up.api}/ops") as (page, seen),
        httpx.Client(trust_env=False, timeout=30) as client,
    ):
        said = page.locator("#standing li")
        live(page)
        expect(said).to_have_text(["All 3 circuit breakers are closed."])
        expect(page.get_by_role("link", name="RabbitMQ management")).to_be_visible()
        seen.expected.append("503")

        def submitted() -> int:
            return client.post(f"{up.api}/v1/infer", json={"text": "a text"}).status_code

        with frozen(up.pid("rabbitmq")):

            def told() -> bool:
                assert submitted() == 503
                return said.first.get_attribute("data-tone") == "bad"

            wait_until(told, 60.0, what="an open breaker on the page")
            expect(said.first).to_have_text(
                re.compile(r"^The breaker of \S+ to RabbitMQ is open.*: \d+ failures so far\.$")
            )
            expect(said.last).to_have_text("The other 2 circuit breakers are closed.")
            looked_at(page, "broker-open")
        wait_until(lambda: submitted() == 202, 60.0, what="a job that is taken")
        wait_until(lambda: submitted() == 202, 60.0, what="another one")
        expect(said).to_have_text(["All 3 circuit breakers are closed."], timeout=60_000)
        live(page)


def test_shards_that_nobody_has_are_told_of(browser: Browser, start_up: StartUp) -> None:
    """Shards are shown per batcher; those of the dead as nobody's, until somebody takes them."""
    up = start_up(routing="hash", shards="8", batchers="2")
    whole = "Routing by hash: 8 shards a model, each with a batcher."
    nobody = "8 of 8 shards of simulated have no batcher: their jobs wait."
    breakers = "All 3 circuit breakers are closed."
    with opened(browser, f"{up.api}/ops") as (page, _):
        said, batchers = page.locator("#standing li"), page.locator("#batchers li")
        expect(said).to_have_text([breakers, whole], timeout=TOLD_MS)
        for batcher in (batchers.first, batchers.last):
            expect(batcher).to_contain_text("s ago · 4 shards", timeout=TOLD_MS)
        looked_at(page, "shards")
        # Nobody is started again who is killed now.
        up.signal(signal.SIGSTOP)
        try:
            with frozen(up.pid("batcher-2")):
                os.kill(up.pid("batcher-1"), signal.SIGKILL)
                expect(said.first).to_have_text(nobody, timeout=TOLD_MS)
                expect(said.first).to_have_attribute("data-tone", "bad")
                looked_at(page, "shards-of-nobody")
            expect(said).to_have_text([re.compile("circuit breakers are closed"), whole], timeout=TOLD_MS)
            living = batchers.filter(has_not_text="gone")
            expect(living).to_have_count(1, timeout=TOLD_MS)
            expect(living).to_contain_text("s ago · 8 shards")
            expect(batchers.first).to_contain_text("gone")
            os.kill(up.pid("batcher-2"), signal.SIGKILL)
            expect(said.first).to_have_text(nobody, timeout=TOLD_MS)
            expect(batchers.first).to_have_text(
                "No batcher is alive: jobs wait until one is.", timeout=TOLD_MS
            )
            expect(living.filter(has_not_text="No batcher")).to_have_count(0)
            assert tile(page, "batchers") == "0 of 2"
            looked_at(page, "shards-no-batcher")
        finally:
            up.signal(signal.SIGCONT)
        expect(said.last).to_have_text(whole, timeout=60_000)
        assert violations(page) == []


def test_a_model_without_a_batcher_is_named(browser: Browser, start_up: StartUp, tmp_path: Path) -> None:
    """Of several models the one whose batcher is dead is shown before all others, until it is served again."""
    for name in ("mlp", "multi-output"):
        write_model(tmp_path / "models" / name, MODELS[name][0]())
    up = start_up(models=str(tmp_path / "models"), threads="1")
    with opened(browser, f"{up.api}/ops") as (page, _):
        batchers = page.locator("#batchers li")
        expect(batchers).to_have_count(3)
        expect(page.locator("#batchers")).not_to_contain_text("no batcher")
        wait_until(lambda: tile(page, "batchers") == "3", what="three batchers")
        up.signal(signal.SIGSTOP)
        try:
            os.kill(up.pid("batcher-2"), signal.SIGKILL)
            expect(batchers.first).to_contain_text("no batcher mlp", timeout=TOLD_MS)
            expect(batchers.first).to_contain_text("Its jobs wait until somebody does.")
            expect(batchers.first).to_have_attribute("data-tone", "bad")
            expect(batchers.nth(1)).to_contain_text("gone")
            expect(page.locator("#batchers")).not_to_contain_text("no batcher multi-output")
            assert tile(page, "batchers") == "2 of 3"
            looked_at(page, "model-without-batcher")
        finally:
            up.signal(signal.SIGCONT)
        expect(page.locator("#batchers")).not_to_contain_text("no batcher", timeout=60_000)
