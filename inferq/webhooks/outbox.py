"""Webhooks that are not delivered, in Redis: claimed and settled by senders, listed and retried by people.

Every method raises `Unavailable` when Redis is away or slow.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from inferq.names import Names
from inferq.redis import Client, evaluate, evaluate_many, translated
from inferq.webhooks.scripts import CLAIM, RETRY, SETTLE

CHUNK: Final = 256

_encode = msgspec.json.encode


@dataclass(frozen=True, kw_only=True, slots=True)
class Due:
    """A webhook that is to be tried now.

    ``since_ms`` is when its day began, by the clock of Redis, and ``tries`` how many came to an end in it.
    """

    job_id: str
    host: str
    url: str = field(repr=False)
    body: bytes = field(repr=False)
    webhook_id: str
    tries: int
    since_ms: int
    owner: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Claimed:
    """What a claim brought.

    ``now_ms`` is the time by the clock of Redis. ``left`` says that something due was left behind; else ``next_ms`` is
    in how long something will be due, None for never. ``pending`` and ``failed`` count all that there are.
    """

    due: list[Due]
    now_ms: int
    left: bool
    next_ms: int | None
    pending: int
    failed: int


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook as people see it: of its URL the host alone, since the rest may hold a secret.

    ``at_ms`` is when it is due (pending) or was given up (failed), ``owner`` the API key's name.
    """

    job_id: str
    state: str
    host: str
    owner: str
    attempts: int
    last_status: int | None
    last_error: str | None
    at_ms: int


class Outbox:
    """The webhooks of one deployment."""

    def __init__(self, redis: Client, names: Names) -> None:
        self._redis, self._names = redis, names

    async def claim(
        self,
        claim: str,
        *,
        lease_ms: int,
        most: int,
        share: int,
        free: Mapping[str, int],
        under_way: Mapping[str, int],
    ) -> Claimed:
        """Claim what is due: ``most`` in all, of one host ``share``, or what ``free`` says of it.

        Of one owner no more than an equal part, of which ``under_way`` says how much he has.
        """
        known = _encode({"hosts": free, "owners": under_way})
        args = [self._names.namespace, claim, lease_ms, most, share, known]
        async with translated("lend webhooks"):
            now_ms, next_ms, pending, failed, *rows = await evaluate(
                self._redis, CLAIM, [self._names.webhook_owners], args
            )
        return Claimed(
            due=[_due(row) for row in rows],
            now_ms=now_ms,
            left=next_ms == 0,
            next_ms=next_ms if next_ms > 0 else None,
            pending=pending,
            failed=failed,
        )

    async def settle(
        self,
        due: Due,
        claim: str,
        state: str,
        *,
        due_ms: int | None = None,
        last_status: int | None,
        last_error: str | None,
    ) -> bool:
        """Say what a try came to: ``state`` of `WebhookState`; False when the claim was another's by then.

        Where another day was asked for meanwhile, what was not delivered is due at once.
        """
        args = [
            self._names.namespace, due.job_id, claim, state, due_ms or 0, _encode(last_status), _encode(last_error),
            due.since_ms,
        ]  # fmt: skip  # numbered as in the script's head
        async with translated("take the change"):
            return bool(await evaluate(self._redis, SETTLE, [self._names.webhook(due.job_id)], args))

    async def pending(self) -> int:
        """Count what is not delivered and not given up."""
        async with translated("answer"):
            (count,) = await self._redis.commands.call_all([("ZCARD", self._names.webhooks_due)])
        return int(count)

    async def counts(self, owner: str) -> tuple[int, int]:
        """Count what is not delivered and not given up, in all and of one owner."""
        async with translated("answer"):
            every, own = await self._redis.commands.call_all(
                [("ZCARD", self._names.webhooks_due), ("HGET", self._names.webhooks_owned, owner)]
            )
        return int(every), int(own or 0)

    async def failed(self) -> int:
        """Count what was given up and is kept."""
        async with translated("answer"):
            (count,) = await self._redis.commands.call_all([("ZCARD", self._names.webhooks_failed)])
        return int(count)

    async def waiting(self, *, failed: bool, limit: int) -> list[Waiting]:
        """List webhooks by their time, soonest due or first given up first."""
        return [one async for page in self._pages(failed=failed, limit=limit) for one in page]

    async def retry(self, job_ids: Sequence[str]) -> list[bool]:
        """Make webhooks due now, with a fresh day; False for each that there is not."""
        calls = [([self._names.webhook(one)], [self._names.namespace, one]) for one in job_ids]
        answers: list[Any] = []
        for first in range(0, len(calls), CHUNK):
            async with translated("take the change"):
                answers += await evaluate_many(self._redis, RETRY, calls[first : first + CHUNK])
        return [answer == 1 for answer in answers]

    async def _pages(self, *, failed: bool, limit: int) -> AsyncIterator[list[Waiting]]:
        key = self._names.webhooks_failed if failed else self._names.webhooks_due
        for first in range(0, limit, CHUNK):
            last = min(first + CHUNK, limit) - 1
            async with translated("list webhooks"):
                (flat,) = await self._redis.commands.call_all([("ZRANGE", key, first, last, "WITHSCORES")])
                ids = [one.decode() for one in flat[::2]]
                rows = await self._redis.commands.call_all(
                    [("HMGET", self._names.webhook(one), *_SHOWN) for one in ids]
                )
            state = "failed" if failed else "pending"
            yield [
                _waiting(job_id, state, row, int(float(at)))
                for job_id, row, at in zip(ids, rows, flat[1::2], strict=True)
                if row[0] is not None
            ]
            if len(ids) < CHUNK:
                return


_SHOWN: Final = ("host", "owner", "attempts", "status", "error")


def _waiting(job_id: str, state: str, row: Sequence[bytes | None], at_ms: int) -> Waiting:
    host, owner, attempts, status, error = (value or b"" for value in row)
    return Waiting(
        job_id=job_id,
        state=state,
        host=host.decode(),
        owner=owner.decode(),
        attempts=int(attempts or 0),
        last_status=msgspec.json.decode(status or b"null"),
        last_error=msgspec.json.decode(error or b"null"),
        at_ms=at_ms,
    )


def _due(row: Sequence[bytes]) -> Due:
    job_id, host, url, body, webhook_id, tries, since, owner = row
    return Due(
        job_id=job_id.decode(),
        host=host.decode(),
        url=url.decode(),
        body=body,
        webhook_id=webhook_id.decode(),
        tries=int(tries),
        since_ms=int(since),
        owner=owner.decode(),
    )
