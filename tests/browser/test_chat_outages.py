"""The chat where something is away, full, or was left unfinished."""

import os
import re
import signal

import httpx
from playwright.sync_api import Browser, expect

from tests.browser.browsing import (
    answered,
    ended,
    frozen,
    live,
    opened,
    picture,
    records,
    send,
    violations,
)
from tests.browser.conftest import StartUp
from tests.support import wait_until

NO_SERVER = "ERR_CONNECTION_REFUSED|WebSocket connection"


def test_what_was_unfinished_is_followed_after_a_reload(browser: Browser, start_up: StartUp) -> None:
    """A page that was closed too early has its answer when it is opened again; of a job that is gone it says so."""
    up = start_up()
    with opened(browser, up.api) as (page, seen):
        live(page)
        with frozen(up.pid("batcher-1")):
            send(page, "one", "two")
            expect(page.locator('.answer[data-state="queued"]')).to_have_count(2)
            wait_until(lambda: len(records(page)) == 2 and all(line["job_id"] for line in records(page)))
            page.reload()
            expect(page.locator('.answer[data-state="queued"]')).to_have_count(2)
        answered(page, 2)
        kept = ended(page, 2)
        # As if it had been left unfinished long ago: its record is not kept any more.
        page.evaluate(
            """(id) => {
              const [name, text] = Object.entries({...localStorage})[0];
              const one = JSON.parse(text.replaceAll(id, "0".repeat(32)));
              for (const line of one.turns[0].lines) if (line.job_id === "0".repeat(32)) line.record = null;
              addEventListener("pagehide", () => localStorage.setItem(name, JSON.stringify(one)));
            }""",
            kept[0]["job_id"],
        )
        seen.expected.append("404")
        page.reload()
        expect(page.locator('.answer[data-state="gone"]')).to_contain_text("kept no more")
        answered(page, 1)


def test_a_killed_notifier_loses_nothing(browser: Browser, start_up: StartUp) -> None:
    """While push is away jobs are looked at; it comes back by itself, and what is still watched is pushed again."""
    up = start_up()
    with opened(browser, up.api) as (page, seen):
        live(page)
        seen.expected.append(NO_SERVER)
        with frozen(up.pid("batcher-1")):
            send(page, "sent before the notifier died")
            expect(page.locator('.answer[data-state="queued"]')).to_have_count(1)
            killed = up.pid("notifier")
            os.kill(killed, signal.SIGKILL)
            expect(page.locator("#link-text")).not_to_have_text("live")
            live(page)
            assert up.pid("notifier") != killed
        answered(page, 1)
        # Pushed, and not looked up: only then is it known when it came.
        expect(page.locator(".stages dd").last).to_have_text(re.compile("ms$|s$"))
        # A connection that is dead without a word: after a while jobs are looked at, and push is connected anew.
        with frozen(up.pid("notifier")):
            send(page, "sent while the notifier does not answer")
            answered(page, 2, within_s=30)
            expect(page.locator("#link-text")).not_to_have_text("live")
        live(page)


def test_a_full_queue_is_waited_out(browser: Browser, start_up: StartUp) -> None:
    """Refused lines say why and when they are sent again; they are, by themselves, or the reader calls it off."""
    up = start_up(queue_limit="3")
    with opened(browser, up.api) as (page, seen), httpx.Client(base_url=up.api, trust_env=False) as client:
        live(page)
        seen.expected.append("503")
        with frozen(up.pid("batcher-1")):
            filled = [
                client.post("/v1/infer", json={"text": f"filler {number}"}).status_code
                for number in range(90)
            ]
            assert filled[-1] == 503
            send(page, "first", "second")
            expect(page.locator('.answer[data-state="refused"]')).to_have_count(2)
            expect(page.locator(".trouble").first).to_contain_text("sent again by itself")
            expect(page.locator(".countdown")).to_have_text(re.compile(r"Again in \d+ s \(try 2\)"))
            assert violations(page) == []
            picture(page, "queue-full")
            send(page, "third")
            expect(page.locator(".countdown:visible")).to_have_count(2)
            page.locator(".turn").last.get_by_role("button", name="Cancel").click()
            expect(page.locator(".countdown:visible")).to_have_count(1)
        answered(page, 2, within_s=90)
        assert page.locator('.answer[data-state="refused"]').count() == 1
        page.get_by_role("button", name="Send again").click()
        answered(page, 3)
