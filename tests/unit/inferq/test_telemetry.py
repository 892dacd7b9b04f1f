"""Whatever comes with an event, a log line is one line of plain characters."""

import json
import logging
import re
from collections.abc import Iterator

import pytest
import structlog

from inferq.telemetry import configure_logs

CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202e]")
HOSTILE = "a\x1b[31mred\r\nforged\x00\x07\x7f\x9b1m\u2028\u202eb"


class Odd:
    """A value that shows itself as it likes."""

    def __repr__(self) -> str:
        return HOSTILE


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """Leave logging as it was."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()


def logged(capsys: pytest.CaptureFixture[str], style: str) -> str:
    """Log hostile events in every way that there is; return what came out."""
    configure_logs(service="test", level="info", style=style)
    log = structlog.get_logger("test").bind()
    log.info(HOSTILE, text=HOSTILE, odd=Odd(), nested={HOSTILE: [HOSTILE]}, raw=HOSTILE.encode(), number=1)
    log.info("names", **{HOSTILE: 1})
    logging.getLogger("library").warning("of %s", HOSTILE)
    try:
        raise ValueError(HOSTILE)
    except ValueError as error:
        log.error("raised", exc_info=error)
        logging.getLogger("library").exception("raised too")
    return capsys.readouterr().err


@pytest.mark.parametrize("style", ["json", "console", "auto"])
def test_no_control_character_reaches_a_log(capsys: pytest.CaptureFixture[str], style: str) -> None:
    """Escapes, ends of lines and what turns the writing come out as text, wherever in an event they were."""
    err = logged(capsys, style)
    assert CONTROL.findall(err) == []
    # None of it is at the start of a line, as if it were an event of its own.
    assert [line for line in err.splitlines() if line.startswith("forged")] == []
    assert err.count("forged") >= 8


def test_json_lines_stay_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Each line is an object, and holds what was logged."""
    lines = [json.loads(line) for line in logged(capsys, "json").splitlines()]
    assert len(lines) == 5
    assert lines[0]["event"] == lines[0]["text"] == HOSTILE
    assert lines[0]["service"] == "test"


def test_the_console_stays_readable(capsys: pytest.CaptureFixture[str]) -> None:
    """Plain events look as before, and a traceback keeps its lines."""
    configure_logs(service="test", level="info", style="console")
    log = structlog.get_logger("test").bind()
    log.info("a.b", count=3, name="größe")
    try:
        raise ValueError("the reason")
    except ValueError as error:
        log.error("raised", exc_info=error)
    first, *more = capsys.readouterr().err.splitlines()
    assert "a.b" in first
    assert "count=3" in first
    assert "name=größe" in first
    assert "  Traceback (most recent call last):" in more
    assert "  ValueError: the reason" in more


def test_failed_connections_are_told_in_our_words_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """What the AMQP library says of each try is left out; its other errors come through."""
    configure_logs(service="test", level="info", style="json")
    library = logging.getLogger("aiormq.connection")
    library.error("error when creating transport: %r", ConnectionRefusedError(111))
    library.error('Unexpected connection close from remote "%s"', "amqp://user:secret@host")
    library.error("Unexpected frame %r", "odd")
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["event"] == "Unexpected frame 'odd'"
