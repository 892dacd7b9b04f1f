"""The chat in states that are rare: two tabs, a full browser, very many turns, results out of order."""

import json
import re

import pytest
from playwright.sync_api import Browser, Page, WebSocketRoute, expect

from tests.acceptance.running import Up
from tests.browser.browsing import answered, frozen, live, opened, picture, records, send
from tests.browser.conftest import StartUp
from tests.support import wait_until

ENDS = {"done", "failed", "cancelled", "expired"}


def test_each_pass_has_a_letter_of_its_own(browser: Browser, start_up: StartUp) -> None:
    """Results that come in another order than their lines leave no two passes under one letter."""
    up = start_up(max_batch_size="1")

    def backwards(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()
        held: list[str | bytes] = []

        def heard(message: str | bytes) -> None:
            if json.loads(message)["job"]["status"] not in ENDS:
                return
            held.append(message)
            if len(held) == 5:
                for one in reversed(held):
                    socket.send(one)

        server.on_message(heard)

    def prepare(page: Page) -> None:
        page.route_web_socket("**/ws", backwards)

    with opened(browser, up.api, before=prepare) as (page, _):
        live(page)
        send(page, *(f"line {number}" for number in range(5)))
        answered(page, 5)
        assert [company.inner_text() for company in page.locator(".company").all()] == [
            f"Pass {letter} alone." for letter in "ABCDE"
        ]


@pytest.mark.parametrize("width", [1200, 600, 320])
def test_answers_that_come_late_move_nothing(browser: Browser, start_up: StartUp, width: int) -> None:
    """Long after the last key too, an answer takes the room that it was given; failures take no more."""
    up = start_up()
    with opened(browser, up.api, width=width) as (page, _):
        live(page)
        with frozen(up.pid("batcher-1")):
            send(page, "one", "[[raise]]", "three")
            wait_until(lambda: len(records(page)) == 3 and all(line["job_id"] for line in records(page)))
            # Whatever moves after a reload is the page's own doing.
            page.reload()
            live(page)
            expect(page.locator('.answer[data-state="queued"]')).to_have_count(3)
        answered(page, 2)
        expect(page.locator('.answer[data-state="failed"]')).to_have_count(1)


def test_two_tabs_share_a_conversation(browser: Browser, pipeline: Up) -> None:
    """What is sent in one tab is there in the other, and neither undoes what the other has kept."""
    with opened(browser, pipeline.api) as (page, _):
        live(page)
        send(page, "I loved it")
        answered(page, 1)
        wait_until(lambda: len(records(page)) == 1)
        other = page.context.new_page()
        other.goto(pipeline.api)
        live(other)
        other.locator("#conversations .open").click()
        answered(other, 1)
        send(page, "It broke after two days")
        answered(page, 2)
        answered(other, 2)
        send(other, "Easy to use")
        answered(other, 3)
        answered(page, 3)
        for one in (page, other):
            assert one.locator(".said [dir]").all_inner_texts() == [
                "I loved it", "It broke after two days", "Easy to use",
            ]  # fmt: skip  # one list
        wait_until(lambda: [line["text"] for line in records(page) if line["record"]][2:] == ["Easy to use"])


def test_all_can_be_deleted_from_an_empty_conversation(browser: Browser, pipeline: Up) -> None:
    """Whatever is open: when all is deleted, none is listed any more."""
    with opened(browser, pipeline.api) as (page, _):
        live(page)
        for text in ("I loved it", "It broke after two days"):
            send(page, text)
            answered(page, 1)
            page.get_by_role("button", name="New conversation").click()
            expect(page.locator("#empty")).to_be_visible()
        page.get_by_role("button", name="Delete all").click()
        page.get_by_role("button", name="Delete", exact=True).click()
        expect(page.locator("#conversations li")).to_have_count(0)
        assert page.evaluate("localStorage.length") == 0


def test_a_browser_that_is_full_says_so_and_loses_nothing(browser: Browser, pipeline: Up) -> None:
    """Room that something else takes is not made by throwing conversations away; it is said until there is room."""
    with opened(browser, pipeline.api) as (page, _):
        live(page)
        send(page, "I loved it")
        answered(page, 1)
        wait_until(lambda: len(records(page)) == 1 and records(page)[0]["record"])
        page.get_by_role("button", name="New conversation").click()
        page.evaluate(
            """() => {
              for (let size = 1 << 22; size >= 1; size >>= 1) {
                try {
                  for (let number = 0; ; number += 1) localStorage.setItem(`other.${size}.${number}`, "x".repeat(size));
                } catch {}
              }
            }"""
        )
        send(page, *(["y" * 2000] * 9))
        expect(page.locator("#notice")).to_contain_text("keeps no more")
        answered(page, 9)
        assert "I loved it" in str(
            page.evaluate(
                "JSON.stringify(Object.entries({...localStorage}).filter((one) => one[0].startsWith('inferq')))"
            )
        )
        # What is said of the connection does not take it back.
        page.evaluate("dispatchEvent(new Event('online'))")
        expect(page.locator("#notice")).to_contain_text("keeps no more")
        page.evaluate(
            "for (const name of Object.keys(localStorage)) if (name.startsWith('other.')) localStorage.removeItem(name)"
        )
        send(page, "It broke after two days")
        expect(page.locator("#notice")).to_be_hidden()


def test_each_text_is_written_in_its_own_direction(browser: Browser, pipeline: Up) -> None:
    """A line from right to left is shown so, and turns nothing beside it around."""
    with opened(browser, pipeline.api) as (page, _):
        live(page)
        page.get_by_label("Text to send").fill("שלום עולם!")
        direction = "(element) => getComputedStyle(element).direction"
        assert page.get_by_label("Text to send").evaluate(direction) == "rtl"
        page.keyboard.press("Enter")
        answered(page, 1)
        assert page.locator(".said [dir]").evaluate(direction) == "rtl"
        assert page.locator("#conversations b").evaluate(direction) == "rtl"
        assert page.locator(".company").evaluate(direction) == "ltr"


def test_the_drawer_gives_the_focus_on(browser: Browser, pipeline: Up) -> None:
    """On a narrow screen nobody who uses a keyboard ends up behind the drawer, or nowhere."""
    with opened(browser, pipeline.api, width=320) as (page, _):
        live(page)
        send(page, "I loved it")
        answered(page, 1)
        drawer = page.locator("#sidebar")
        page.get_by_role("button", name="Conversations").press("Enter")
        page.get_by_role("button", name=re.compile("^I loved it")).press("Enter")
        expect(drawer).to_be_hidden()
        expect(page.locator("#scroll")).to_be_focused()
        page.get_by_role("button", name="Conversations").press("Enter")
        for _ in range(3):
            page.keyboard.press("Tab")
        expect(drawer).to_be_hidden()
        assert page.evaluate("document.documentElement.scrollWidth") == 320
        overlap = page.locator(".stages dt").evaluate_all(
            "(all) => all.filter((one) => one.scrollWidth > one.parentElement.clientWidth).length"
        )
        assert overlap == 0
        picture(page, "narrow-320")


def test_what_made_room_is_not_shown_any_more(browser: Browser, pipeline: Up) -> None:
    """A page that is used for long holds no more turns than a conversation does."""
    with opened(browser, pipeline.api) as (page, _):
        live(page)
        page.evaluate(
            """() => {
              const line = { text: "old", job_id: "0".repeat(32), record: { status: "cancelled", seq: 3 } };
              const turns = Array.from({ length: 200 }, (_, at) => ({ at, lines: [line] }));
              localStorage.setItem("inferq.chat.x", JSON.stringify({ version: 1, id: "x", changed_at: 1, turns }));
              sessionStorage.setItem("inferq.open", "x");
            }"""
        )
        page.reload()
        expect(page.locator(".turn")).to_have_count(200)
        live(page)
        send(page, "I loved it")
        answered(page, 1)
        assert page.locator(".turn").count() == 200


def test_stages_are_told_apart_where_colours_are_forced(browser: Browser, pipeline: Up) -> None:
    """The colours of the trace and of its legend are its meaning, and are kept."""
    with opened(browser, pipeline.api, forced_colors=True) as (page, _):
        live(page)
        send(page, "I loved it")
        answered(page, 1)
        grounds = page.locator(".stages i").evaluate_all(
            "(all) => all.map((one) => getComputedStyle(one).backgroundColor)"
        )
        assert len(set(grounds)) == 8
        picture(page, "forced-colours")
