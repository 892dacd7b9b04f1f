"""Which channels are needed, and how long one that nobody needs any more is heard on. Pure.

1. A channel is needed for as long as anybody uses it; uses are counted.
2. One that nobody uses is left only once it has been idle for a while: jobs come and go within seconds, and entering
   a channel again costs the next who looks at a job a round trip.
3. How long it has been idle is reckoned from when that is first noticed, so ending a use needs no clock.
"""


class Channels:
    """Counts the uses of channels; ``linger_s`` is how long an idle one is kept."""

    def __init__(self, linger_s: float) -> None:
        self._linger_s = linger_s
        self._uses: dict[str, int] = {}
        self._idle_since_s: dict[str, float] = {}

    @property
    def needed(self) -> list[str]:
        """Channels that are in use."""
        return list(self._uses)

    def use(self, channel: str) -> None:
        """Count one more use."""
        self._uses[channel] = self._uses.get(channel, 0) + 1
        self._idle_since_s.pop(channel, None)

    def drop(self, channel: str) -> None:
        """Count one use less."""
        self._uses[channel] -= 1
        if not self._uses[channel]:
            del self._uses[channel]

    def leave(self, entered: list[str], now_s: float) -> list[str]:
        """Return which of the channels that are entered are to be left now."""
        left = []
        for channel in entered:
            if channel in self._uses:
                continue
            if now_s - self._idle_since_s.setdefault(channel, now_s) >= self._linger_s:
                del self._idle_since_s[channel]
                left.append(channel)
        return left
