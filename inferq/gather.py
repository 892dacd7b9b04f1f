"""Joins what many callers ask for within one turn of the loop into one piece of work.

Why our own: a call of a script costs Redis and us as much as the record that it makes, and the submits that one turn of
the loop has read can share it.

Rules:

1. What is asked for in one turn is answered by one call of ``work``, whose answers come in the order of the questions.
2. A caller that is cancelled leaves the others alone; its question is worked on all the same.
3. What ``work`` raises, every caller of that turn gets.
4. Nothing waits here: what is bounded is how many may ask, and that is their caller's business.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Gather(Generic[Question, Answer]):
    """Asks ``work`` once a turn of the loop for all that was asked for in it."""

    def __init__(self, work: Callable[[Sequence[Question]], Awaitable[Sequence[Answer]]]) -> None:
        self._work = work
        self._asked: list[tuple[Question, asyncio.Future[Answer]]] = []
        self._working: set[asyncio.Task[None]] = set()

    def ask(self, question: Question) -> asyncio.Future[Answer]:
        """Ask, and return what will be the answer."""
        loop = asyncio.get_running_loop()
        if not self._asked:
            loop.call_soon(self._begin)
        future: asyncio.Future[Answer] = loop.create_future()
        self._asked.append((question, future))
        return future

    def _begin(self) -> None:
        asked, self._asked = self._asked, []
        task = asyncio.ensure_future(self._answer(asked))
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def _answer(self, asked: Sequence[tuple[Question, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._work([question for question, _ in asked])
        except Exception as error:
            for _, future in asked:
                if not future.done():
                    future.set_exception(error)
        else:
            for (_, future), answer in zip(asked, answers, strict=True):
                if not future.done():
                    future.set_result(answer)
        finally:
            for _, future in asked:
                future.cancel()
