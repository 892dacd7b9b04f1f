"""The page shows all of the description, and loads nothing."""

import copy
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from ingress.description.document import document
from ingress.description.page import operations, page
from ingress.description.style import POLICY, STYLE

DOCUMENT = document()


class Seen(HTMLParser):
    """What elements, places, links and words a page has; that each element is closed where it should be."""

    VOID = frozenset({"meta", "br", "wbr"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.names: list[str] = []
        self.links: list[str] = []
        self.words = ""
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take an element."""
        given = dict(attrs)
        assert not [name for name in given if name.startswith("on") or name in {"style", "src"}]
        self.tags.add(tag)
        if tag not in self.VOID:
            self._open.append(tag)
        if "id" in given:
            self.names.append(given["id"] or "")
        if "href" in given:
            self.links.append(given["href"] or "")

    def handle_endtag(self, tag: str) -> None:
        """Take its end."""
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Take a text."""
        self.words += data


@pytest.fixture(scope="module")
def seen() -> Seen:
    """The page as a browser reads it."""
    return Seen(page(DOCUMENT, keyed=False))


def test_it_is_closed_in_itself(seen: Seen) -> None:
    """No script, no picture, no host; each link leads to a place on the page or to a document."""
    assert seen.tags & {"script", "img", "link", "iframe", "object", "form", "base", "svg"} == set()
    assert len(set(seen.names)) == len(seen.names)
    assert {link for link in seen.links if not link.startswith("#")} == {
        "/openapi.json", "/asyncapi.json",
    }  # fmt: skip  # two documents
    assert {link[1:] for link in seen.links if link.startswith("#")} <= set(seen.names)


def test_it_tells_all(seen: Seen) -> None:
    """Operations, parameters, schemas and their fields, answers, codes and header fields stand on it."""
    for path, method, operation in operations(DOCUMENT):
        assert f"{method} {path}" in seen.words
        assert operation["operationId"] in seen.names
        assert operation["summary"] in seen.words
        assert set(operation["responses"]) <= set(re.findall(r"\d{3}", seen.words))
    for name, methods in DOCUMENT["webhooks"].items():
        assert name in seen.names
        for field in methods["post"]["parameters"]:
            assert field["name"] in seen.words
    parts = DOCUMENT["components"]
    for name, schema in parts["schemas"].items():
        assert f"schema-{name}" in seen.names
        for field in schema.get("properties", {}):
            assert field in seen.words
    for parameter in parts["parameters"].values():
        assert parameter["name"] in seen.words
    assert {f"header-{part}" for part in parts["headers"]} <= set(seen.names)
    for name, example in parts["examples"].items():
        if isinstance(example["value"], dict) and "code" in example["value"] and name != "none_accepted":
            assert f"problem-{name}" in seen.names
    assert {"queue_full", "method_not_allowed", "internal_error"} <= set(re.findall(r"[a-z_]+", seen.words))


def test_whatever_the_document_says_is_shown_as_text() -> None:
    """Markup in any text of the document comes out as text."""
    evil = "<img src=x onerror=alert(1)>"

    texts = {"description", "summary", "detail", "text", "name", "version"}

    def poisoned(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: evil if key in texts and isinstance(one, str) else poisoned(one)
                for key, one in value.items()
            }
        return [poisoned(one) for one in value] if isinstance(value, list) else value

    made = poisoned(copy.deepcopy(DOCUMENT))
    for methods in made["paths"].values():
        for operation in methods.values():
            operation["tags"] = [evil]
    seen = Seen(page(made, keyed=False))
    assert "img" not in seen.tags
    assert seen.words.count(evil) > 50


def test_keys_are_in_the_commands_where_they_are_asked_for() -> None:
    """With keys the commands of calls that need one give it, and no others do."""
    assert "INFERQ_API_KEY" not in page(DOCUMENT, keyed=False)
    commands = re.findall(r"<pre[^>]*><code>(curl[^<]*|job=[^<]*)</code>", page(DOCUMENT, keyed=True))
    assert len(commands) == len(list(operations(DOCUMENT)))
    for made, (path, _, operation) in zip(commands, operations(DOCUMENT), strict=True):
        assert ("INFERQ_API_KEY" in made) == bool(operation["security"]), path


def test_the_style_is_all_that_may_be_loaded() -> None:
    """Nothing in the style asks for another file, and it cannot end its element."""
    assert POLICY.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in POLICY
    assert not re.search(r"url\(|@import|</", STYLE)
    assert f"<style>{STYLE}</style>" in page(DOCUMENT, keyed=False)
