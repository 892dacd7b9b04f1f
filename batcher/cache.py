"""Finished results of one batcher, least recently used first to go. Pure.

Rules:

1. The first result that was stored for a key stands. In int8 an answer may depend on its batch mates, and a client
   that asks twice should not read two answers; a later `put` makes the key recent and no more.
2. At most ``size`` results are kept. A size of 0 is a cache that is off: it keeps, finds and counts nothing.
3. Errors are never put here: a result is what it takes.
"""

from collections import OrderedDict

from inferq.results import AnyResult


class ResultCache:
    """Results by the key of `inferq.cachekey`; ``hits``, ``misses`` and ``evictions`` count since the start."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._results: OrderedDict[str, AnyResult] = OrderedDict()
        self.hits = 0
        self.misses = 0
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._results)

    def get(self, key: str) -> AnyResult | None:
        """Return the result for a key and make it recent; None when there is none."""
        found = self._results.get(key)
        if found is not None:
            self._results.move_to_end(key)
            self.hits += 1
        elif self._size:
            self.misses += 1
        return found

    def put(self, key: str, result: AnyResult) -> None:
        """Keep a result, unless the key has one; the least recently used goes when there is no room."""
        if not self._size:
            return
        self._results.setdefault(key, result)
        self._results.move_to_end(key)
        if len(self._results) > self._size:
            self._results.popitem(last=False)
            self.evictions += 1
