"""The chat where it is refused, or gets no answer: it asks again when it may, and never more often."""

import json
import re
import secrets
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Browser, Page, Request, Route, expect

from tests.acceptance.running import Up
from tests.browser.browsing import answered, live, opened, send, violations
from tests.browser.conftest import StartUp
from tests.support import wait_until

SUBMIT = "**/v1/infer/batch"
LOOKS = re.compile(r"/v1/jobs/[0-9a-f]{32}$")


def refusal(status: int, code: str, **headers: str) -> dict[str, Any]:
    """Return what a route answers when the server refuses."""
    problem = {
        "type": "about:blank",
        "title": code,
        "status": status,
        "code": code,
        "detail": f"{code}, says a test",
    }
    return {
        "status": status,
        "headers": headers,
        "content_type": "application/problem+json",
        "body": json.dumps(problem),
    }


def noting(page: Page, wanted: Callable[[Request], bool]) -> list[Request]:
    """Note the requests of a page that are wanted."""
    found: list[Request] = []
    page.on("request", lambda request: found.append(request) if wanted(request) else None)
    return found


def settled(page: Page) -> None:
    """Wait until the page has done what it had to do by now, and was heard of it."""
    page.evaluate("fetch('healthz').then((answer) => answer.text())")


def later(page: Page, ms: int) -> None:
    """Let time pass in the page whose clock a test holds."""
    page.clock.run_for(ms)
    settled(page)


def test_a_refused_key_is_asked_for_once(browser: Browser, start_up: StartUp) -> None:
    """A key that is not known any more is asked for, and who does not give one is not asked again and again."""
    key = secrets.token_hex(16)
    up = start_up(api_keys=f"me:{key}")

    def prepare(page: Page) -> None:
        page.clock.install()
        page.route(LOOKS, lambda route: route.fulfill(**refusal(401, "unauthorized")))
        page.route_web_socket("**/ws", lambda socket: socket.close(code=4401))
        page.add_init_script(f"sessionStorage.setItem('inferq.key', '{key}')")

    with opened(browser, up.api, before=prepare) as (page, seen):
        seen.expected.append("401")
        dialog = page.get_by_role("dialog", name="API key")
        expect(dialog).to_be_visible()
        page.get_by_role("button", name="Cancel").click()
        send(page, "one", "two", "three")
        expect(page.locator('.answer[data-state="queued"]')).to_have_count(3)
        looks = noting(page, lambda request: LOOKS.search(request.url) is not None)
        page.clock.run_for(4_000)
        expect(dialog).to_be_visible()
        page.get_by_role("button", name="Cancel").click()
        asked = len(looks)
        for _ in range(5):
            later(page, 4_000)
        expect(dialog).to_be_hidden()
        page.get_by_role("button", name="API key").click()
        page.get_by_role("button", name="Forget the key").click()
        for _ in range(5):
            later(page, 4_000)
        expect(dialog).to_be_hidden()
        assert len(looks) == asked


def test_a_server_that_is_slow_is_not_asked_more_and_more(browser: Browser, start_up: StartUp) -> None:
    """Looks that are not answered are not joined by others."""
    up = start_up()

    def prepare(page: Page) -> None:
        page.clock.install()
        page.route(LOOKS, lambda route: None)
        page.route_web_socket("**/ws", lambda socket: socket.close(code=4403))

    with opened(browser, up.api, before=prepare) as (page, _):
        looks = noting(page, lambda request: LOOKS.search(request.url) is not None)
        send(page, *(f"line {number}" for number in range(20)))
        expect(page.locator('.answer[data-state="queued"]')).to_have_count(20)
        for _ in range(4):
            later(page, 4_000)
        assert 1 <= len(looks) <= 6


def test_nothing_is_sent_sooner_than_the_server_says(browser: Browser, pipeline: Up) -> None:
    """A wait that is too long to be waited out is told, and left to the reader."""

    def prepare(page: Page) -> None:
        page.clock.install()
        page.route(
            SUBMIT, lambda route: route.fulfill(**refusal(429, "quota_exceeded", **{"Retry-After": "600"}))
        )

    with opened(browser, pipeline.api, before=prepare) as (page, seen):
        seen.expected.append("429")
        submits = noting(page, lambda request: request.url.endswith("/batch"))
        send(page, "one")
        expect(page.locator(".trouble")).to_contain_text("Send it again in 10 minutes")
        expect(page.get_by_role("button", name="Send again")).to_be_visible()
        for _ in range(3):
            later(page, 61_000)
        assert len(submits) == 1


def test_what_was_deleted_is_not_sent_again(browser: Browser, pipeline: Up) -> None:
    """A refusal that comes after its conversation was deleted brings about nothing."""
    held: list[Route] = []

    def prepare(page: Page) -> None:
        page.clock.install()
        page.route(SUBMIT, lambda route: held.append(route))

    with opened(browser, pipeline.api, before=prepare) as (page, seen):
        seen.expected.append("503")
        send(page, "one")
        wait_until(lambda: page.evaluate("1") and held)
        page.get_by_role("button", name=re.compile("^Delete “")).click()
        page.get_by_role("button", name="Delete", exact=True).click()
        expect(page.locator("#empty")).to_be_visible()
        held[0].fulfill(**refusal(503, "queue_full", **{"Retry-After": "1"}))
        for _ in range(3):
            later(page, 3_000)
        assert len(held) == 1


def test_an_answer_that_is_lost_makes_no_second_job(browser: Browser, pipeline: Up) -> None:
    """The same lines again are the same request, by itself or by hand after a reload; its way begins with the first."""
    keys: list[str] = []
    jobs: list[str] = []

    def lost(route: Route) -> None:
        keys.append(route.request.headers["idempotency-key"])
        answer = route.fetch()
        jobs.extend(entry["job_id"] for entry in answer.json()["jobs"])
        if len(keys) % 2:
            route.abort()
        else:
            route.fulfill(response=answer)

    with opened(browser, pipeline.api, before=lambda page: page.route(SUBMIT, lost)) as (page, seen):
        seen.expected.append("ERR_FAILED")
        live(page)
        send(page, "one")
        answered(page, 1)
        expect(page.locator(".company")).not_to_contain_text("clocks differ")
        assert (len(set(keys)), len(keys), len(set(jobs))) == (1, 2, 1)
        send(page, "two", "three")
        wait_until(lambda: page.evaluate("1") and len(keys) == 3)
        page.reload()
        expect(page.locator(".trouble:visible")).to_have_count(2)
        page.get_by_role("button", name="Send again").click()
        answered(page, 3)
        assert (len(set(keys)), len(keys), len(set(jobs))) == (2, 4, 3)


def test_without_push_results_are_looked_up(browser: Browser, pipeline: Up) -> None:
    """An address of the notifier that a browser cannot call costs the push, and not the page."""

    def broken(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(
            response=answer, body=re.sub(r"content=\"ws://[^\"]*", 'content="ws://x:bad', answer.text())
        )

    with opened(browser, pipeline.api, before=lambda page: page.route(f"{pipeline.api}/", broken)) as (
        page,
        _,
    ):
        expect(page.locator("#notice")).to_contain_text("INFERQ_PUBLIC_NOTIFIER_URL")
        send(page, "I loved it")
        answered(page, 1)
        assert violations(page) == []
