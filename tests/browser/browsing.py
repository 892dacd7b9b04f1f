"""A page in a real browser, watched for whatever a page must not do."""

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import axe_playwright_python
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, WebSocket, expect

from tests.support import wait_until

PICTURES: Final = Path(__file__).resolve().parents[2] / "build" / "browser"
MOST_BYTES: Final = 150_000
# Counts what moved although nobody has touched anything just before.
_SHIFTS: Final = """
globalThis.shifts = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    if (entry.hadRecentInput) continue;
    const where = (rect) => `${rect.x},${rect.y}`;
    const named = (node) => `${node?.nodeName} ${node?.getAttribute?.("class") ?? ""}`;
    const moved = entry.sources.map(
      (one) => `${named(one.node)} from ${where(one.previousRect)} to ${where(one.currentRect)}`
    );
    globalThis.shifts.push(`${entry.value.toFixed(5)} ${moved}`);
  }
}).observe({ type: "layout-shift", buffered: true });
"""
_AXE: Final = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


@dataclass(kw_only=True)
class Seen:
    """What a page did: errors on its console, hosts that it asked, and bytes that came over the wire."""

    errors: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    received_bytes: int = 0
    # A refusal is an error to the console, also where a page handles it well: tests say which ones they bring about.
    expected: list[str] = field(default_factory=list)

    def unexpected(self) -> list[str]:
        """Return the errors that no test has brought about."""
        return [error for error in self.errors if not any(re.search(one, error) for one in self.expected)]

    def elsewhere(self, host: str) -> list[str]:
        """Return the addresses at other hosts than this one."""
        return [address for address in self.addresses if urlsplit(address).hostname not in {host, None}]


@contextmanager
def opened(
    browser: Browser,
    url: str,
    *,
    dark: bool = False,
    width: int = 1200,
    height: int = 800,
    seen: Seen | None = None,
    forced_colors: bool = False,
    before: Callable[[Page], object] = lambda _: None,
) -> Iterator[tuple[Page, Seen]]:
    """Open a page in a context of its own, prepared by ``before``; at the end it must have behaved."""
    seen = seen or Seen()
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
        forced_colors="active" if forced_colors else "none",
        locale="en-GB",
        timezone_id="UTC",
    )
    context.set_default_timeout(20_000)
    try:
        context.add_init_script(_SHIFTS)
        page = context.new_page()
        watch(page, seen)
        before(page)
        page.goto(url)
        yield page, seen
        assert seen.unexpected() == []
        assert seen.elsewhere(urlsplit(url).hostname or "") == []
        shifts = page.evaluate("globalThis.shifts")
        assert not shifts, f"something moved by itself: {shifts}"
        assert seen.received_bytes < MOST_BYTES
    finally:
        context.close()


def watch(page: Page, seen: Seen) -> None:
    """Note what a page does."""

    def said(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            seen.errors.append(f"{message.text} ({message.location.get('url', '')})")

    def asked(request: Request) -> None:
        seen.addresses.append(request.url)

    def connected(socket: WebSocket) -> None:
        seen.addresses.append(socket.url)

    def received(event: dict[str, Any]) -> None:
        seen.received_bytes += int(event["encodedDataLength"])

    page.on("console", said)
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    page.on("request", asked)
    page.on("websocket", connected)
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    session.on("Network.loadingFinished", received)


def live(page: Page) -> None:
    """Wait until results can be pushed."""
    expect(page.locator("#link")).to_have_attribute("data-state", "open")


def send(page: Page, *texts: str) -> None:
    """Write lines as one does at a keyboard, and send them."""
    box = page.get_by_label("Text to send")
    box.focus()
    for number, text in enumerate(texts):
        if number:
            box.press("Shift+Enter")
        page.keyboard.insert_text(text)
    box.press("Enter")


def answered(page: Page, count: int, *, within_s: float = 20.0) -> None:
    """Wait until so many answers are there."""
    expect(page.locator('.answer[data-state="done"]')).to_have_count(count, timeout=within_s * 1000)


def records(page: Page) -> list[dict[str, Any]]:
    """Return the records of the conversations that the browser keeps, once they are kept."""
    kept: list[str] = page.evaluate("Object.values({...localStorage})")
    found = [json.loads(text) for text in kept]
    return [line for one in found for turn in one["turns"] for line in turn["lines"]]


def ended(page: Page, count: int) -> list[dict[str, Any]]:
    """Wait until the browser keeps so many lines with their results, and return them."""

    def done() -> list[dict[str, Any]]:
        return [line for line in records(page) if (line["record"] or {}).get("status") == "done"]

    found: list[dict[str, Any]] = wait_until(lambda: len(done()) == count and done(), what="the kept answers")
    return found


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Hold a process still."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def picture(page: Page, name: str, *, whole: bool = False) -> None:
    """Keep a picture of the page; of all of it when ``whole``, not only of what is in view."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png", animations="disabled", full_page=whole)


def violations(page: Page) -> list[str]:
    """Return what axe finds wrong for those who do not see, hear or point as others do."""
    page.evaluate(_AXE)
    found = page.evaluate(
        "axe.run(document, {resultTypes: ['violations']}).then((result) => result.violations.map((one) =>"
        " `${one.id}: ${one.nodes.map((node) => `${node.target} ${node.failureSummary}`).slice(0, 3).join('; ')}`))"
    )
    return list(found)
