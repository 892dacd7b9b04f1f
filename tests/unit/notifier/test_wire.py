"""A text message as it goes out."""

import pytest
from websockets.frames import Frame, Opcode

from notifier.wire import text_message


@pytest.mark.parametrize("length", [0, 1, 125, 126, 127, 65_535, 65_536, 300_000])
def test_it_is_what_the_library_would_send(length: int) -> None:
    """With each of the three ways to write a length."""
    text = b"x" * length
    assert text_message(text) == Frame(Opcode.TEXT, text).serialize(mask=False)
