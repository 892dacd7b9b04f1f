"""The chat, as somebody meets it who opens the page."""

import re
import secrets
import time

import pytest
from playwright.sync_api import Browser, expect

from loadgen.figures import at_most
from tests.acceptance.running import Up
from tests.browser.browsing import (
    Seen,
    answered,
    ended,
    live,
    opened,
    picture,
    send,
    violations,
)
from tests.browser.conftest import StartUp
from tests.support import wait_until

FIVE = (
    "I loved every minute of it",
    "A complete waste of money",
    "The acting is superb here",
    "It broke after two days",
    "Easy to use, and it looks great",
)
STAGES = ("accepted", "queued", "tokenised", "batched", "begun", "computed", "stored", "pushed")
AT_ONCE_MS = 2000


def test_one_line_is_answered_with_its_trace(browser: Browser, pipeline: Up, figures: list[str]) -> None:
    """A newcomer writes "I loved it" and sees POSITIVE at once, and where each millisecond went."""
    with opened(browser, pipeline.api) as (page, seen):
        live(page)
        picture(page, "empty")
        begun = time.monotonic()
        send(page, "I loved it")
        answered(page, 1)
        took_ms = (time.monotonic() - begun) * 1000
        card = page.locator(".answer")
        expect(card.locator(".label")).to_have_text("POSITIVE")
        expect(card.locator(".score")).to_have_text(re.compile(r"^\d\d\.\d %$"))
        for stage, figure in zip(STAGES, card.locator(".stages dd").all(), strict=True):
            assert re.fullmatch(r"[\d.]+ m?s", figure.inner_text()), stage
        assert card.locator(".trace rect").count() >= 5
        assert "computed" in str(card.locator(".trace").get_attribute("aria-label"))
        expect(card.locator(".company")).to_have_text("Pass A alone.")
        expect(page.locator(".took")).to_have_text("1 line took 1 forward pass")
        picture(page, "one-line")
        drawn_ms = wait_until(
            lambda: page.evaluate("performance.getEntriesByName('inferq.drawn').map((one) => one.duration)")
        )
        figures += [
            at_most("from Enter to the answer on the page", took_ms, AT_ONCE_MS, "ms").line(),
            at_most("from a frame's arrival to its drawing", max(drawn_ms), 50, "ms").line(),
            at_most("over the wire", seen.received_bytes / 1000, 150, "kB").line(),
        ]
        assert took_ms < AT_ONCE_MS


def test_five_lines_go_in_one_request(browser: Browser, pipeline: Up) -> None:
    """Each line is a job, all of them are one submit, and the page says how many forward passes they took."""
    with opened(browser, pipeline.api) as (page, seen):
        live(page)
        send(page, *FIVE)
        answered(page, 5)
        assert [label.inner_text() for label in page.locator(".label").all()] == [
            "POSITIVE", "NEGATIVE", "POSITIVE", "NEGATIVE", "POSITIVE",
        ]  # fmt: skip  # one list
        assert [address for address in seen.addresses if "/v1/" in address] == [
            f"{pipeline.api}/v1/infer/batch"
        ]
        kept = ended(page, 5)
        passes = len({line["record"]["batch"]["id"] for line in kept})
        noun = "pass" if passes == 1 else "passes"
        expect(page.locator(".took")).to_have_text(f"5 lines took {passes} forward {noun}")
        for line, company in zip(kept, page.locator(".company").all(), strict=True):
            if line["record"]["batch"]["size"] > 1:
                expect(company).to_contain_text("with your line")
            else:
                expect(company).to_contain_text("alone")
        picture(page, "five-lines")


@pytest.mark.parametrize(
    ("name", "dark", "width"), [("light", False, 1200), ("dark", True, 1200), ("narrow", False, 360)]
)
def test_everybody_can_read_it(browser: Browser, pipeline: Up, name: str, dark: bool, width: int) -> None:
    """axe finds nothing without and with answers, in both colours, on a narrow screen and in the dialogs."""
    with opened(browser, pipeline.api, dark=dark, width=width) as (page, _):
        live(page)
        assert violations(page) == []
        page.get_by_role("button", name="Five lines at once").click()
        answered(page, 5)
        assert violations(page) == []
        picture(page, f"five-lines-{name}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if width < 500:
            page.get_by_role("button", name="Conversations").click()
            expect(page.get_by_role("button", name="New conversation")).to_be_focused()
            picture(page, "conversations-narrow")
        assert violations(page) == []
        page.get_by_role("button", name=re.compile("^Delete “")).click()
        expect(page.get_by_role("dialog")).to_be_visible()
        assert violations(page) == []
        page.get_by_role("button", name="Keep").click()


def test_a_conversation_is_there_after_a_reload(browser: Browser, pipeline: Up) -> None:
    """Conversations stay in the browser, can be opened again, and are gone once they are deleted."""
    with opened(browser, pipeline.api) as (page, _):
        live(page)
        send(page, "I loved it")
        answered(page, 1)
        pushed = page.locator(".stages dd").last.inner_text()
        page.get_by_role("button", name="New conversation").click()
        expect(page.locator("#empty")).to_be_visible()
        send(page, "It broke after two days")
        answered(page, 1)
        page.reload()
        answered(page, 1)
        expect(page.locator(".said")).to_contain_text("It broke after two days")
        expect(page.locator("#conversations li")).to_have_count(2)
        page.get_by_role("button", name=re.compile("^I loved it")).click()
        expect(page.locator(".said")).to_contain_text("I loved it")
        expect(page.locator(".label")).to_have_text("POSITIVE")
        expect(page.locator(".stages dd").last).to_have_text(pushed)
        page.get_by_role("button", name="Delete “I loved it”").click()
        page.get_by_role("button", name="Delete", exact=True).click()
        expect(page.locator("#conversations li")).to_have_count(1)
        expect(page.locator("#empty")).to_be_visible()
        page.reload()
        expect(page.locator("#conversations li")).to_have_count(1)
        assert "I loved it" not in str(page.evaluate("JSON.stringify({...localStorage})"))


def test_markup_in_a_line_stays_text(browser: Browser, pipeline: Up) -> None:
    """Whatever is written is shown as it was written, as a line, as a title and after a reload."""
    text = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>&lt;b&gt;'
    with opened(browser, pipeline.api) as (page, _):
        live(page)
        send(page, text)
        answered(page, 1)
        for _ in range(2):
            assert page.locator(".said").inner_text().endswith(text)
            assert page.locator("#conversations b").inner_text().startswith(text[:40])
            assert page.locator("#turns img, #turns script, #conversations img").count() == 0
            assert page.evaluate("window.broken") is None
            page.reload()
            answered(page, 1)


def test_what_is_wrong_with_a_line_is_said_beside_it(browser: Browser, start_up: StartUp) -> None:
    """A refused line costs the others nothing; a failed job says why; one that is too long is not even sent."""
    up = start_up()
    with opened(browser, up.api) as (page, _):
        live(page)
        send(page, "good", "[[raise]]", "good too")
        answered(page, 2)
        failed = page.locator('.answer[data-state="failed"]')
        expect(failed).to_contain_text("The model raised an error on this text")
        picture(page, "failed")
        box = page.get_by_label("Text to send")
        # A key, so that the box grows because of the reader.
        box.press("x")
        page.keyboard.insert_text("x" * 2000)
        expect(page.locator("#count")).to_contain_text("Line 1 is too long")
        expect(page.get_by_role("button", name="Send", exact=True)).to_be_disabled()
        assert violations(page) == []


def test_a_key_is_asked_for_where_one_is_needed(browser: Browser, start_up: StartUp) -> None:
    """The page comes without one, says when one is wrong, keeps the right one for this tab, and pushes with it."""
    key = secrets.token_hex(16)
    up = start_up(api_keys=f"me:{key}")
    with opened(browser, up.api) as (page, seen):
        dialog = page.get_by_role("dialog", name="API key")
        expect(dialog).to_be_visible()
        assert violations(page) == []
        picture(page, "key")
        page.get_by_label("Key", exact=True).fill(secrets.token_hex(16))
        page.get_by_role("button", name="Use this key").click()
        expect(dialog).to_contain_text("does not know this API key")
        page.get_by_label("Key", exact=True).fill(key)
        page.keyboard.press("Enter")
        live(page)
        send(page, "one")
        answered(page, 1)
        expect(page.locator(".stages dd").last).to_have_text(re.compile("ms$"))
        assert key not in str(page.evaluate("JSON.stringify({...localStorage})"))
        assert key in str(page.evaluate("JSON.stringify({...sessionStorage})"))
        page.reload()
        live(page)
        seen.expected.append("401")
        page.get_by_role("button", name="API key").click()
        page.get_by_role("button", name="Forget the key").click()
        expect(page.locator("#link-text")).to_have_text("no key")


def test_it_can_be_used_without_a_mouse(browser: Browser, pipeline: Up) -> None:
    """The first stop leads to the text; all that can be done can be reached; Enter alone sends nothing empty."""
    with opened(browser, pipeline.api, seen=Seen()) as (page, seen):
        live(page)
        page.get_by_label("Text to send").press("Enter")
        page.get_by_role("link", name="Skip to the text").focus()
        assert page.evaluate(
            "document.activeElement === document.querySelector('a, button, input, textarea')"
        )
        page.keyboard.press("Enter")
        expect(page.get_by_label("Text to send")).to_be_focused()
        assert not [address for address in seen.addresses if "/v1/" in address]
        page.keyboard.type("I loved it")
        page.keyboard.press("Enter")
        answered(page, 1)
        expect(page.locator("#announcer")).to_contain_text("Line 1: POSITIVE, 9")
