"""The page that shows the API's description to people. Pure.

All of it comes from the document that `/openapi.json` shows. There is no script on it, and nothing of another host.
`commands.ADDRESS` stands where the service's address goes, which each reader's own request tells.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ingress.description.commands import command
from ingress.description.markup import block, breakable, code, escape, folded, link, prose, table
from ingress.description.shapes import field_table, kind, place
from ingress.description.style import STYLE

_Part = Mapping[str, Any]


def page(document: _Part, *, keyed: bool) -> str:
    """Return the page; ``keyed`` says that API keys are asked for."""
    info = document["info"]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(info['title'])} {escape(info['version'])}: the API</title>\n"
        f"<style>{STYLE}</style>\n</head>\n<body>\n"
        f'{_contents(document)}\n<main id="top">\n{"".join(_sections(document, keyed))}</main>\n</body>\n</html>\n'
    )


def operations(document: _Part) -> Iterator[tuple[str, str, _Part]]:
    """Return path, method in capitals, and operation, in the document's order."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation


def resolved(document: _Part, value: _Part) -> _Part:
    """Follow a reference within the document; anything else is returned as it is."""
    if "$ref" not in value:
        return value
    found = document
    for step in value["$ref"].removeprefix("#/").split("/"):
        found = found[step]
    return found


def command_of(document: _Part, path: str, method: str, operation: _Part, *, keyed: bool) -> str:
    """Return the commands that make a call, with its first example."""
    body = None
    for content in operation.get("requestBody", {}).get("content", {}).values():
        body = resolved(document, next(iter(content["examples"].values())))["value"]
    return command(path, method, body=body, keyed=keyed and bool(operation["security"]))


def _contents(document: _Part) -> str:
    calls = "".join(
        f'<li><a href="#{escape(operation["operationId"])}"><b class="{method.lower()}">{method}</b> '
        f"<span>{breakable(path)}</span></a></li>"
        for path, method, operation in operations(document)
    )
    shapes = "".join(f"<li>{link(place(name), name)}</li>" for name in document["components"]["schemas"])
    return (
        f'<nav aria-label="Contents"><p class="brand">{link("top", document["info"]["title"])}</p>'
        f"<ul>{calls}<li>{link('webhooks', 'Webhooks')}</li><li>{link('keys', 'API keys')}</li>"
        f"<li>{link('problems', 'Problems')}</li><li>{link('headers', 'Header fields')}</li></ul>"
        f"<details><summary>Schemas</summary><ul>{shapes}</ul></details></nav>"
    )


def _sections(document: _Part, keyed: bool) -> Iterator[str]:
    info, parts = document["info"], document["components"]
    yield f"<h1>{escape(info['title'])} <small>{escape(info['version'])}</small></h1>"
    yield f'<p class="lead">{prose(info["summary"])}.</p>'
    yield from (f"<p>{prose(part)}</p>" for part in info["description"].split("\n\n"))
    yield (
        f'<p>For programs: <a href="/openapi.json">/openapi.json</a> (OpenAPI {escape(document["openapi"])}), and '
        '<a href="/asyncapi.json">/asyncapi.json</a> (AsyncAPI 3.0) for what is pushed: WebSockets and events.</p>\n'
    )
    for tag in document["tags"]:
        yield f"<h2>{escape(tag['name'])}</h2><p>{prose(tag['description'])}</p>\n"
        for path, method, operation in operations(document):
            if tag["name"] in operation["tags"]:
                yield from _call(document, path, method, operation, keyed)
    yield '<h2 id="webhooks">Webhooks</h2>\n'
    for name, methods in document["webhooks"].items():
        yield from _webhook(document, name, methods["post"])
    yield f'<h2 id="keys">API keys</h2><p>{prose(parts["securitySchemes"]["bearer"]["description"])}</p>\n'
    yield f'<h2 id="problems">Problems</h2>{_problems(document)}\n'
    rows = (
        (
            f'<span id="{_header(part)}">{code(part.partition(".")[0])}</span>',
            kind(field["schema"]),
            prose(field["description"]),
        )
        for part, field in parts["headers"].items()
    )
    yield f'<h2 id="headers">Header fields of answers</h2>{table(("Name", "Is", "Meaning"), rows)}\n'
    yield "<h2>Schemas</h2>\n"
    for name, schema in parts["schemas"].items():
        yield f'<section id="{place(name)}"><h3>{escape(name)}</h3><p>{prose(schema["description"])}</p>'
        yield f"{field_table(schema)}</section>\n"


def _call(document: _Part, path: str, method: str, operation: _Part, keyed: bool) -> Iterator[str]:
    yield f'<section class="call" id="{escape(operation["operationId"])}">'
    yield f'<h3><b class="{method.lower()}">{method}</b> <code>{breakable(path)}</code></h3>'
    key = f' <span class="mark">{link("keys", "API key")}</span>' if operation["security"] else ""
    yield f'<p class="lead">{prose(operation["summary"])}.{key}</p><p>{prose(operation["description"])}</p>'
    yield block(command_of(document, path, method, operation, keyed=keyed))
    yield from _asked(document, operation)
    yield "<h4>Answers</h4>" + table(("Status", "Meaning", "Header fields"), _answers(document, operation))
    for status, answer in operation["responses"].items():
        for content in answer.get("content", {}).values():
            if not _codes(content["schema"]):
                yield from _examples(document, content, f"{status}: ")
    yield "</section>\n"


def _webhook(document: _Part, name: str, operation: _Part) -> Iterator[str]:
    yield f'<section class="call" id="{escape(name)}"><h3><b class="post">POST</b> <code>your URL</code></h3>'
    yield f'<p class="lead">{prose(operation["summary"])}.</p><p>{prose(operation["description"])}</p>'
    yield from _asked(document, operation)
    rows = (
        (f'<b class="s{status[0]}">{escape(status)}</b>', prose(answer["description"]))
        for status, answer in operation["responses"].items()
    )
    yield "<h4>Your answers</h4>" + table(("Status", "Meaning"), rows) + "</section>\n"


def _asked(document: _Part, operation: _Part) -> Iterator[str]:
    if "parameters" in operation:
        parameters = [resolved(document, one) for one in operation["parameters"]]
        rows = (
            (
                code(one["name"]),
                f"{escape(one['in'])}: {kind(one['schema'])}",
                prose(one["description"]),
            )
            for one in parameters
        )
        yield "<h4>Parameters</h4>" + table(("Name", "Is", "Meaning"), rows)
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"<h4>Body</h4><p>{code(media_type)}: {kind(content['schema'])}</p>"
        yield field_table(resolved(document, content["schema"]))
        yield from _examples(document, content)


def _examples(document: _Part, content: _Part, before: str = "") -> Iterator[str]:
    for one in content.get("examples", {}).values():
        example = resolved(document, one)
        yield folded(f"{before}{example['summary']}", example["value"])


def _answers(document: _Part, operation: _Part) -> Iterator[tuple[str, str, str]]:
    for status, given in operation["responses"].items():
        answer = resolved(document, given)
        text = prose(answer["description"])
        for media_type, content in answer.get("content", {}).items():
            codes = [link(_problem(one), one, coded=True) for one in _codes(content["schema"])]
            what = " or ".join(codes) if codes else code(media_type)
            text += f'<br><span class="quiet">{what}: {kind(content["schema"])}</span>'
        names = "<br>".join(
            link(_header(one["$ref"]), name, coded=True) for name, one in answer.get("headers", {}).items()
        )
        yield f'<b class="s{status[0]}">{escape(status)}</b>', text, names


def _codes(schema: _Part) -> list[str]:
    """Return the problem codes that a schema allows; none when it is no problem's."""
    return [
        one
        for part in schema.get("allOf", [])
        for one in part.get("properties", {}).get("code", {}).get("enum", [])
    ]


def _header(part: str) -> str:
    return f"header-{part.rpartition('/')[2]}"


def _problem(name: str) -> str:
    return f"problem-{name}"


def _problems(document: _Part) -> str:
    found = [
        (name, example)
        for name, example in document["components"]["examples"].items()
        if isinstance(example["value"], dict)
        and "code" in example["value"]
        and "jobs" not in example["value"]
    ]
    rows = (
        (
            f'<span id="{escape(_problem(name))}">{code(example["value"]["code"])}</span>',
            f'<b class="s{str(example["value"]["status"])[0]}">{example["value"]["status"]}</b>',
            prose(example["description"]),
        )
        for name, example in sorted(found, key=lambda one: (one[1]["value"]["status"], one[0]))
    )
    return table(("Code", "Status", "Meaning"), rows)
