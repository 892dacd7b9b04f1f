"""Counts calls of a function that goes on doing what it does, so that a test can wait for rounds and not for a time."""

from types import ModuleType
from typing import Any

import pytest


class Calls:
    """The calls of an async function of a module, from now to the end of the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> None:
        self._called_with: list[tuple[Any, ...]] = []
        real = getattr(module, name)

        async def counted(*args: Any) -> Any:
            self._called_with.append(args)
            return await real(*args)

        monkeypatch.setattr(module, name, counted)

    def by(self, who: str) -> int:
        """Return how many calls named ``who`` among their arguments."""
        return sum(who in args for args in self._called_with)
