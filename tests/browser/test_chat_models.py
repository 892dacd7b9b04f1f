"""The chat before models that answer with something else than one label, or take no text at all."""

import re
import secrets
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.browsing import answered, frozen, live, opened, picture, records, send, violations
from tests.browser.conftest import StartUp
from tests.encodermodels import WIDTH, make_encoder
from tests.hubstandin import HubStandIn, files_of, serving
from tests.support import wait_until
from tests.tensormodels import MODELS, write_model

WIDTHS = (1200, 600, 320)
NUMBER = r"−?\d+(\.\d+)?(e−?\d+)?"
Make = Callable[[Path], Path]


def several(folder: Path) -> Path:
    """A model of which several labels may hold, and with this threshold do, whatever the text."""
    labels = ("admiration", "joy", "curiosity", "surprise", "fear")
    choice = {"task": "classification", "threshold": 0.01}
    return make_encoder(folder, labels=labels, problem_type="multi_label_classification", choice=choice)


def regression(folder: Path) -> Path:
    """A model that answers with numbers."""
    return make_encoder(folder, labels=("fluency", "politeness"), problem_type="regression")


def embedding(folder: Path) -> Path:
    """A model that answers with a vector."""
    return make_encoder(folder, modules=("Transformer", "Pooling", "Normalize"))


def _all_accepted(page: Page) -> bool:
    lines = records(page)
    return bool(lines) and all(line["job_id"] for line in lines)


@pytest.mark.parametrize(
    ("make", "label", "figure", "brief"),
    [
        (several, r"\d labels", r"", r"^\w+ [\d.]+ %, \w+ [\d.]+ %"),
        (regression, r"2 values", r"", rf"^fluency {NUMBER}, politeness {NUMBER}$"),
        (embedding, r"embedding", r"", rf"^{WIDTH} dimensions: {NUMBER}(, {NUMBER}){{5}}, …$"),
    ],
)
def test_an_answer_is_told_in_words(
    browser: Browser, start_up: StartUp, tmp_path: Path, make: Make, label: str, figure: str, brief: str
) -> None:
    """What there is besides one label has its line, which moves nothing when it comes, and opens to all of it."""
    up = start_up(model=str(make(tmp_path / "model")), threads="1")
    for width in WIDTHS:
        with opened(browser, up.api, width=width) as (page, _):
            live(page)
            with frozen(up.pid("batcher-1")):
                send(page, "a b c", "b")
                wait_until(partial(_all_accepted, page))
                # Whatever moves after a reload is the page's own doing.
                page.reload()
                live(page)
                expect(page.locator('.answer[data-state="queued"]')).to_have_count(2)
            answered(page, 2)
            card = page.locator(".answer").first
            expect(card.locator(".label")).to_have_text(re.compile(f"^{label}$"))
            expect(card.locator(".score")).to_have_text(figure)
            expect(card.locator("summary")).to_have_text(re.compile(brief))
            assert "{" not in page.locator("#turns").inner_text()
            assert violations(page) == []
            card.locator("summary").click()
            expect(card.locator(".rest dd").first).to_be_visible()
            # A name takes no more than half of what there is.
            half = card.locator(".rest").evaluate("(one) => one.clientWidth") / 2
            assert card.locator(".rest dd").first.evaluate("(one) => one.clientWidth") >= half - 12
            assert violations(page) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            picture(page, f"answer-{make.__name__}-{width}")


def test_outputs_and_what_is_not_known_are_told_too(browser: Browser, start_up: StartUp) -> None:
    """Tensors by name, type, shape and first numbers; of a kind that a later version kept, that it is not shown."""
    up = start_up()
    outputs: list[dict[str, Any]] = [
        {"name": "square", "datatype": "FP32", "shape": [1, 4], "data": [1.0, 6.25, 9.0, 0.0]},
        {"name": "positive", "datatype": "BOOL", "shape": [1, 2], "data": [True, False]},
    ]
    lines = [
        {
            "text": "kept",
            "job_id": secrets.token_hex(16),
            "record": {"status": "done", "seq": 3, "result": result},
        }
        for result in ({"outputs": outputs}, {"of a later kind": 1})
    ]
    kept = {"version": 1, "id": "x", "changed_at": 1, "turns": [{"at": 1, "lines": lines}]}
    for width in WIDTHS:
        with opened(browser, up.api, width=width) as (page, _):
            page.evaluate(
                "(kept) => { localStorage.setItem('inferq.chat.x', JSON.stringify(kept));"
                " sessionStorage.setItem('inferq.open', 'x'); }",
                kept,
            )
            page.reload()
            live(page)
            first, second = page.locator(".answer").all()
            expect(first.locator(".label")).to_have_text("2 tensors")
            expect(first.locator("summary")).to_have_text("square FP32 [1, 4], positive BOOL [1, 2]")
            first.locator("summary").click()
            expect(first.locator(".rest dd").first).to_have_text("1, 6.25, 9, 0")
            expect(first.locator(".rest dd").last).to_have_text("true, false")
            expect(second.locator("summary")).to_contain_text("the API has it")
            assert violations(page) == []
            picture(page, f"answer-tensors-{width}")


def test_a_model_that_is_downloaded_at_the_start_is_known(
    browser: Browser, start_up: StartUp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the page's server started without its files, its answers have their room and their words."""
    files = files_of(embedding(tmp_path / "source"))
    with serving(HubStandIn(repo="owner/e5", commit="c" * 40, files=files)) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
        up = start_up(model="hub:owner/e5", cache_dir=str(tmp_path / "cache"), threads="1")
        kind = 'name="inferq-answers" content="embedding"'
        wait_until(lambda: kind in httpx.get(up.api, trust_env=False).text, what="a kind that is known")
        with opened(browser, up.api, width=320) as (page, _):
            live(page)
            send(page, "a b c")
            answered(page, 1)
            expect(page.locator(".label")).to_have_text("embedding")


@pytest.mark.parametrize("width", WIDTHS)
def test_a_model_of_tensors_takes_no_lines_and_the_page_says_so(
    browser: Browser, start_up: StartUp, tmp_path: Path, width: int
) -> None:
    """Nothing can be written that would be refused line by line; what it takes is named, and where it is sent."""
    up = start_up(model=str(write_model(tmp_path / "mlp", MODELS["mlp"][0]())), threads="1")
    with opened(browser, up.api, width=width) as (page, seen):
        live(page)
        said = page.locator("#empty")
        expect(said).to_contain_text("takes tensors")
        expect(said).to_contain_text("x FP32 [-1, 4]")
        expect(said.get_by_role("link", name="the API")).to_have_attribute("href", "docs")
        expect(page.locator("#examples button")).to_have_count(0)
        expect(page.get_by_label("Text to send")).to_be_disabled()
        expect(page.get_by_role("button", name="Send", exact=True)).to_be_disabled()
        assert violations(page) == []
        picture(page, f"tensors-{width}")
        page.get_by_role("link", name="Skip to the conversation").press("Enter")
        expect(page.locator("#scroll")).to_be_focused()
        assert not [address for address in seen.addresses if "/v1/" in address]
        # A line that an earlier model was sent is shown, and not sent to this one.
        page.evaluate(
            """() => {
              const turns = [{ at: 1, lines: [{ text: "old", job_id: null }] }];
              localStorage.setItem("inferq.chat.x", JSON.stringify({ version: 1, id: "x", changed_at: 1, turns }));
              sessionStorage.setItem("inferq.open", "x");
            }"""
        )
        page.reload()
        live(page)
        expect(page.locator(".label")).to_have_text("not sent")
        expect(page.get_by_role("button", name="Send again")).to_be_hidden()
        expect(page.locator("#composer-hint")).to_contain_text("Tensors are sent by the API.")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert violations(page) == []
