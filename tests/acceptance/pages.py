"""The commands of a page: its blocks, what they are said to print, and which of them cannot be run, and why."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]

# Why a block is not run, as the comment before it says, and what must stand in the block for that to be true.
REASONS: Final = {
    "needs the network": r"git clone|bin/pip install",
    "needs Docker": r"^ *docker ",
    "takes minutes": r"^bash scripts/benchmark\.sh|-m loadgen (?:sweep|cache|--cache-test)",
    "needs servers of yours": r"INFERQ_(?:REDIS|BROKER)_URL=\w+://[\w.]+\.internal",
    "needs a GPU": r"^bash deploy/gpu-check\.sh$|\bINFERQ_DEVICE=cuda\b",
    "needs a model of yours": r"\./models\b|\bmodel\"?(?:: |=)\"(?:mlp|minilm)\"",
    "runs until Ctrl-C": r"make run$",
}
# What a block may be: commands, a program, what came out, a document, and what goes over the wire or is drawn.
KINDS: Final = frozenset({"sh", "python", "text", "json", ""})

# Pages whose programs have a test of their own, since they make one whole.
PROGRAMS_ELSEWHERE: Final = ("docs/sdk.md", "docs/webhooks.md")

_FENCE: Final = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]*) -->\n)?^```(?P<kind>[^\n`]*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_MARK: Final = re.compile(r"^[ >]*(?:```|~~~)", re.MULTILINE)
_SAID: Final = re.compile(r"#[ ](?P<said>\d{3}\b[^{\n]*)(?P<body>\{.*)?$")
_RUN: Final = re.compile(r"^((?:INFERQ_\w+=\S+ )*)make run$")
# What differs from run to run: identities, times, numbers.
_VARIES: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z|\b[0-9a-f]{32}\b|\b\d+(?:\.\d+)?\b")


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a comment says of the request above it: the statuses that may come, and how the body looks."""

    statuses: frozenset[int]
    body: str = ""


@dataclass(frozen=True, kw_only=True)
class Block:
    """One block of commands, or a program, on a page; ``shown`` is the block of output below it, if there is one."""

    page: str
    line: int
    kind: str
    text: str
    reason: str | None
    shown: str | None

    @property
    def starts(self) -> dict[str, str] | None:
        """The settings of the pipeline that it starts, by field, where that is all it does."""
        found = _RUN.match(self.text.strip())
        if found is None:
            return None
        pairs = (setting.split("=", 1) for setting in found[1].split())
        return {variable.removeprefix("INFERQ_").lower(): value for variable, value in pairs}

    @property
    def said(self) -> list[Said]:
        """What is said of each request, in their order; without a word it is to succeed."""
        said: list[Said] = []
        for line in self.text.splitlines():
            comment = _SAID.search(line)
            code = line[: comment.start()] if comment else line
            said += [Said(statuses=frozenset({200, 202, 204}))] * len(
                re.findall(r"(?<!command )\bcurl ", code)
            )
            if comment and said:
                statuses = frozenset(int(status) for status in re.findall(r"\b\d{3}\b", comment["said"]))
                said[-1] = Said(statuses=statuses, body=comment["body"] or "")
        return said


def pages() -> list[str]:
    """Return every page whose commands count."""
    docs = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
    return ["README.md", *docs]


def text_of(page: str) -> str:
    """Return a page as it stands."""
    return (ROOT / page).read_text(encoding="utf-8")


def kinds(page: str) -> list[str]:
    """Return the kind of each block of a page. Raises `ValueError` where a block is not told from the text."""
    found = [fence["kind"] for fence in _FENCE.finditer(text_of(page))]
    if len(_MARK.findall(text_of(page))) != 2 * len(found):
        raise ValueError(f"{page}: a block is indented, not ended, or within another")
    return found


def fences(page: str, kind: str) -> list[str]:
    """Return what is in a page's blocks of a kind."""
    return [found["text"] for found in _FENCE.finditer(text_of(page)) if found["kind"] == kind]


def blocks(page: str) -> Iterator[Block]:
    """Yield a page's blocks of commands and its programs, in their order."""
    kinds = ("sh",) if page in PROGRAMS_ELSEWHERE else ("sh", "python")
    text = text_of(page)
    found = list(_FENCE.finditer(text))
    for number, fence in enumerate(found):
        if fence["kind"] not in kinds:
            continue
        after = found[number + 1] if number + 1 < len(found) else None
        # An output stands right below its commands.
        shown = (
            after is not None and after["kind"] == "text" and not text[fence.end() : after.start()].strip()
        )
        yield Block(
            page=page,
            kind=fence["kind"],
            line=text.count("\n", 0, fence.start("text")),
            text=fence["text"],
            reason=fence["reason"],
            shown=after["text"] if shown and after is not None else None,
        )


def holds(printed: str, shown: str) -> bool:
    """Whether what was printed has in it what is shown: ``…`` is anything, numbers and identities may differ."""
    return re.search(_shape(shown), printed, re.DOTALL) is not None


def agrees(printed: str, shown: str) -> bool:
    """Whether what was printed is what is shown, from its beginning to its end, as `holds` compares."""
    return re.fullmatch(_shape(shown), printed.strip(), re.DOTALL) is not None


def _shape(shown: str) -> str:
    parts = []
    for part in shown.strip().split("…"):
        end, shape = 0, ""
        for varies in _VARIES.finditer(part):
            shape += _literal(part[end : varies.start()]) + f"(?:{_VARIES.pattern})"
            end = varies.end()
        parts.append(shape + _literal(part[end:]))
    return ".*?".join(parts)


def _literal(text: str) -> str:
    # Columns are as wide as what is in them.
    return re.sub(r"(?:\\?\s)+", r"\\s+", re.escape(text))
