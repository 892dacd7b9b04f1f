"""What a batcher says of itself while it comes, works and goes: to probes, at `GET /health`, and in its heartbeat."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from batcher.account import account, health
from batcher.assembly import Assembly
from batcher.engine import Engine
from batcher.health import reason_of
from batcher.shardkeeper import ShardKeeper
from batcher.tally import Tally
from batcher.vitals import Vitals
from inferq.broker.base import Consumer
from inferq.errors import Unavailable
from inferq.heartbeats import BatcherBeat
from inferq.settings import Settings
from inferq.store import Store


@dataclass(kw_only=True)
class Parts:
    """What a batcher is made of, as far as it is there; `Service` puts it here as it comes."""

    engine: Engine | None = None
    assembly: Assembly | None = None
    consumer: Consumer | None = None
    shards: ShardKeeper | None = None
    card: bytes = b"null"


def own_queues(settings: Settings, parts: Parts) -> Sequence[str]:
    """Name the queues whose jobs are this batcher's to run now."""
    names, model = settings.names, settings.served
    if not settings.by_hash:
        return names.queues(model)
    shards = parts.shards.consumed if parts.shards is not None else ()
    return [queue for shard in shards for queue in names.shard_queues(model, shard)]


class Report:
    """One batcher's, whose id is ``batcher_id``."""

    def __init__(
        self, settings: Settings, batcher_id: str, parts: Parts, tally: Tally, store: Store, vitals: Vitals
    ) -> None:
        self._settings, self._id, self._parts = settings, batcher_id, parts
        self._tally, self._store, self._vitals = tally, store, vitals

    async def checks(self) -> dict[str, str]:
        """Return what `/readyz` says: of each part that it needs, ok or what is wrong."""
        found = {"redis": "ok", "broker": "away", "engine": "loading"}
        if self._parts.consumer is not None and self._parts.consumer.ready:
            found["broker"] = "ok"
        if self._parts.assembly is not None and self._parts.assembly.circuit.rests:
            found["engine"] = "circuit open"
        elif self._parts.engine is not None and self._parts.engine.ready:
            # Until it is warm nobody knows what a batch costs.
            found["engine"] = "ok" if self._parts.assembly is not None else "warming up"
        elif self._parts.assembly is not None:
            found["engine"] = "restarting"
        if self._settings.by_hash:
            found["shards"] = (
                "ok" if self._parts.shards is not None and self._parts.shards.ready else "leases not renewed"
            )
        try:
            await self._store.ping()
        except Unavailable as error:
            found["redis"] = error.detail
        return found

    def about(self) -> dict[str, str | None]:
        """Return what the model runs on, which may not be what was asked for."""
        if self._parts.assembly is None:
            return {}
        loaded, layout = self._parts.assembly.loaded, self._parts.assembly.warmth.layout
        return {
            "device": loaded.device,
            "fallback_reason": loaded.fallback_reason,
            "precision": self._settings.precision,
            "layout": layout.text,
        }

    def facts(self) -> dict[str, Any]:
        """Return what else `/readyz` says; a batcher that has no shard is ready for when it gets one."""
        return (
            {**self.about(), "shards": self._parts.shards.consumed}
            if self._parts.shards is not None
            else self.about()
        )

    def beat(self) -> BatcherBeat:
        """Return the heartbeat of now."""
        return account(
            self._settings,
            self._id,
            self._tally,
            engine=self._parts.engine,
            assembly=self._parts.assembly,
            shards=self._parts.shards.consumed if self._parts.shards is not None else (),
            card=self._parts.card,
        )

    async def health(self, _: Request) -> Response:
        """Answer `GET /health`: 503 unless all is well."""
        checks, stuck, depth = await self.checks(), self._vitals.stuck(), await self._vitals.depth()
        said = health(
            self.beat(),
            self._tally,
            engine=self._parts.engine,
            reason=reason_of(checks, stuck),
            in_hand=self._vitals.in_hand,
            depth=depth,
        )
        status = 200 if said.healthy else 503
        return Response(msgspec.json.encode(said), status_code=status, media_type="application/json")
