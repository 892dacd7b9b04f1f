"""The page of operations, as an operator meets it."""

import os
import re
import secrets
import signal

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.acceptance.running import Up
from tests.browser.browsing import live, opened, picture, violations
from tests.browser.conftest import StartUp
from tests.support import wait_until


def tile(page: Page, name: str) -> str:
    """Return what a tile shows."""
    return (
        page.locator("#tiles div").filter(has=page.get_by_text(name, exact=True)).locator("dd").inner_text()
    )


def dies(up: Up, *texts: str, key: str = "") -> None:
    """Have jobs become dead letters, one for each text."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    with httpx.Client(base_url=up.api, headers=headers, trust_env=False) as client:
        before = client.get("/v1/stats").json()["queue"]["dead"]
        for text in texts:
            assert client.post("/v1/infer", json={"text": text}).status_code == 202
        wait_until(
            lambda: client.get("/v1/stats").json()["queue"]["dead"] == before + len(texts),
            what="dead letters",
        )


@pytest.mark.parametrize(
    ("name", "dark", "width"), [("light", False, 1200), ("dark", True, 1200), ("narrow", False, 360)]
)
def test_it_shows_what_goes_on(browser: Browser, pipeline: Up, name: str, dark: bool, width: int) -> None:
    """Jobs that run are seen in rates, sizes, latencies and batchers; nothing moves, and axe finds nothing."""
    with opened(browser, f"{pipeline.api}/ops", dark=dark, width=width) as (page, _):
        live(page)
        assert violations(page) == []
        with httpx.Client(base_url=pipeline.api, trust_env=False) as client:
            inputs = [{"text": f"a film of a kind {secrets.token_hex(4)}"} for _ in range(64)]
            assert client.post("/v1/infer/batch", json={"inputs": inputs}).status_code == 202
        wait_until(lambda: tile(page, "ended") not in {"–", "0.0/s"}, what="a rate")
        expect(page.locator("#latency tr").nth(2)).to_have_text(re.compile(r"total\d.*ms.*ms.*ms"))
        expect(page.locator("#sizes-text")).to_contain_text(" jobs; closed by ")
        assert page.locator("#sizes rect").count() > 0
        expect(page.locator("#rates")).to_have_attribute(
            "aria-label", re.compile(r"^Now [\d.]+ arrivals a second")
        )
        expect(page.locator("#batchers li")).to_have_text(re.compile(r"(idle|busy) .*cpu · builtin · fp32"))
        assert tile(page, "batchers") == "1"
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert violations(page) == []
        picture(page, f"operations-{name}", whole=True)


def test_dead_letters_are_run_again_or_dropped(browser: Browser, start_up: StartUp) -> None:
    """They are listed with their reasons; nothing happens before it is confirmed; a replay is a new job."""
    up = start_up(max_attempts="1")
    dies(up, "[[crash]] one", "[[crash]] two", "[[crash]] three")
    with opened(browser, f"{up.api}/ops") as (page, _):
        letters = page.locator("#dead tr")
        expect(letters).to_have_count(3)
        expect(letters.first).to_contain_text("engine_crashed")
        assert violations(page) == []
        picture(page, "dead-letters", whole=True)
        # What is under the pointer, or has the focus, stays there while others die.
        letters.first.get_by_role("button", name="Drop").focus()
        dies(up, "[[crash]] four")
        expect(letters).to_have_count(4, timeout=20_000)
        expect(letters.first.get_by_role("button", name="Drop")).to_be_focused()
        letters.last.get_by_role("button", name="Drop").click()
        page.get_by_role("dialog").get_by_role("button", name="Drop").click()
        expect(letters).to_have_count(3)
        letters.first.get_by_role("button", name="Drop").click()
        page.get_by_role("button", name="Cancel").click()
        expect(letters).to_have_count(3)
        letters.first.get_by_role("button", name="Drop").click()
        page.get_by_role("dialog").get_by_role("button", name="Drop").click()
        expect(page.locator("#dead-said")).to_contain_text("1 dropped.")
        expect(letters).to_have_count(2)
        job_id = str(letters.first.locator("code").get_attribute("title"))
        letters.first.get_by_role("button", name="Replay").click()
        page.get_by_role("dialog").get_by_role("button", name="Replay").click()
        expect(page.locator("#dead-said")).to_contain_text("1 run again.")
        # It crashes the model again, and is a new dead letter.
        expect(page.locator(f'[title="{job_id}"]')).to_have_count(0)
        expect(letters).to_have_count(2, timeout=20_000)
        page.get_by_role("button", name="Drop all shown").click()
        page.get_by_role("dialog").get_by_role("button", name="Drop").click()
        expect(page.locator("#dead")).to_contain_text("There are none.")
        drop_all = page.get_by_role("button", name="Drop all shown")
        expect(drop_all).to_be_disabled()
        usual = page.get_by_role("button", name="Look again").evaluate(
            "(one) => getComputedStyle(one).borderColor"
        )
        expect(drop_all).to_have_css("border-color", usual)


def test_dead_letters_are_an_admins(browser: Browser, start_up: StartUp) -> None:
    """Figures come with any key, dead letters with an admin's alone."""
    plain, admin = secrets.token_hex(16), secrets.token_hex(16)
    up = start_up(api_keys=f"me:{plain},ops:{admin}:admin", max_attempts="1")
    dies(up, "[[crash]]", key=plain)
    with opened(browser, f"{up.api}/ops") as (page, seen):
        seen.expected.append("403")
        page.get_by_label("Key", exact=True).fill(plain)
        page.keyboard.press("Enter")
        live(page)
        expect(page.locator("#dead-said")).to_contain_text("give the key of an admin")
        page.get_by_role("button", name="API key").click()
        page.get_by_label("Key", exact=True).fill(admin)
        page.keyboard.press("Enter")
        expect(page.locator("#dead tr")).to_contain_text("engine_crashed")


def test_more_batchers_move_nothing_and_those_that_go_are_told_of(
    browser: Browser, start_up: StartUp
) -> None:
    """Whoever is killed is shown as gone, before all others; what the page shows stays in its place."""
    up = start_up(batchers="2")
    with opened(browser, f"{up.api}/ops") as (page, _):
        batchers = page.locator("#batchers li")
        expect(batchers).to_have_count(2)
        heights = "[...document.querySelectorAll('section')].map((one) => one.getBoundingClientRect().top)"
        before = page.evaluate(heights)
        os.kill(up.pid("batcher-1"), signal.SIGKILL)
        expect(batchers.first).to_contain_text("gone", timeout=20_000)
        expect(batchers.first).to_contain_text("last heard of")
        expect(batchers).to_have_count(3)
        assert tile(page, "batchers") == "2 of 3"
        assert page.evaluate(heights) == before
        assert violations(page) == []
        picture(page, "batcher-gone", whole=True)
