"""How much of a client is read at a time. Pure.

Rules:

1. A frame costs some ten microseconds however little is in it. So what is read is little at first, grows with each read
   that is filled by few frames, and is little again after one with many.
2. Who filled a read, or sent many frames in it, sends much: it is read again when its turn has come.
3. In the least that is read, many frames are too short to say anything. Who goes on with those is sent away: all that
   it has sent would have to be read even when it is long gone.
"""

from typing import Final

FEW_FRAMES: Final = 16
MOST_FLOODS: Final = 200
"""Reads of nothing but too short frames, in all: where many flood, each has few in any time."""

_ALL: Final = memoryview(bytearray(16 * 1024))
_LEAST: Final = _ALL[:512]


class Pace:
    """What one client is read into: ``buffer`` is shared by all, and good until the next read of any."""

    __slots__ = ("_floods", "buffer")

    def __init__(self) -> None:
        self.buffer = _LEAST
        self._floods = 0

    @property
    def floods(self) -> bool:
        """Whether the client is to be sent away."""
        return self._floods > MOST_FLOODS

    def took(self, size: int, frames: int) -> bool:
        """Take note of a read; say whether the client sends much."""
        many = frames > FEW_FRAMES
        much = many or size == len(self.buffer)
        if many:
            self._floods += len(self.buffer) == len(_LEAST)
            self.buffer = _LEAST
        elif much:
            self.buffer = _ALL[: 2 * len(self.buffer)]
        return much
