"""The room that the chat keeps for what is to come: given up as soon as that moves nothing under the reader's eyes."""

import pytest
from playwright.sync_api import Browser, Locator, Page

from tests.acceptance.running import Up
from tests.browser.browsing import answered, live, opened, picture, send
from tests.browser.conftest import StartUp

# In CSS pixels: what stands between two things that belong together, and between two turns.
NEAR, APART = 24, 40


def gap(above: Locator, below: Locator) -> float:
    """Return how far apart two things are, from the end of the text in the one to the other's begin."""
    text = """(one) => {
      const range = document.createRange();
      range.selectNodeContents(one);
      return range.getBoundingClientRect().bottom;
    }"""
    end: float = above.evaluate(text)
    begin: float = below.evaluate("(one) => one.getBoundingClientRect().top")
    return begin - end


def has_no_gaps(page: Page) -> None:
    """Nothing is left empty inside the first turn's answer, and between it and the next turn."""
    first, second = page.locator(".turn").all()
    assert 0 < gap(first.locator(".company span"), first.locator(".trace")) <= NEAR
    assert 0 < gap(first.locator(".took"), second.locator(".when")) <= APART


@pytest.mark.parametrize("width", [1200, 600, 320])
def test_no_gap_stays_below_an_answer(browser: Browser, pipeline: Up, width: int) -> None:
    """Once the next line is sent the earlier turn needs no room for buttons, nor has it any after a reload."""
    with opened(browser, pipeline.api, width=width) as (page, _):
        live(page)
        send(page, "I loved it")
        answered(page, 1)
        send(page, "It broke after two days")
        answered(page, 2)
        has_no_gaps(page)
        picture(page, f"two-turns-{width}")
        page.reload()
        live(page)
        answered(page, 2)
        has_no_gaps(page)


@pytest.mark.parametrize("width", [600, 320])
def test_what_is_wrong_stands_below_the_word_for_it(browser: Browser, start_up: StartUp, width: int) -> None:
    """No room for a company that there is not lies between them."""
    up = start_up()
    with opened(browser, up.api, width=width) as (page, _):
        live(page)
        send(page, "[[raise]]")
        failed = page.locator('.answer[data-state="failed"]')
        assert 0 < gap(failed.locator(".label"), failed.locator(".trouble")) <= NEAR
        picture(page, f"failed-{width}")
