"""The most that a push server delivers: events are published as fast as their receipts come back.

A process of its own holds both ends, so that what is on its way is bounded: an event is published once few enough are
out, since Redis drops a subscriber who lags behind by megabytes. Jobs come in turn, and there are more of them than
events may be out, so that nobody gets to merge two changes of one job. First jobs change without end, for a while,
and then each of them ends once.

`python -m loadgen.eventflood` reads a `Flood` as JSON from its standard input and writes a `Flow` to its output.
"""

import asyncio
import gc
import sys
import time
from collections.abc import Iterator
from itertools import count, islice
from typing import Any, Final

import msgspec
import uvloop

from inferq.connection import target
from inferq.errors import first_line
from loadgen.cputime import CpuMeter
from loadgen.muxsocket import MuxSocket, open_mux
from loadgen.pushed import ERROR, SNAPSHOT, decode

PATIENCE_S: Final = 20.0
# As many digits in all, so that each frame is as long as the next.
FIRST_SEQ: Final = 100_001
LAST_SEQ: Final = 999_999
CREATED: Final = '"2026-01-31T12:00:00.123Z"'
_RECORD: Final = (
    ',"model":"builtin","result":{result},"error":null,"cached":false,"attempt":1,"deadline_at":null,"created_at":'
    + CREATED
    + ',"started_at":'
    + CREATED
    + ',"finished_at":{finished},"timings_ms":{timings},"batch":{batch}}}'
)
_RUNNING: Final = _RECORD.format(result="null", finished="null", timings="null", batch="null")
_DONE: Final = _RECORD.format(
    result='{"label":"POSITIVE","score":0.9998,"scores":{"NEGATIVE":0.0002,"POSITIVE":0.9998},"truncated":false}',
    finished=CREATED,
    timings='{"queue_wait":12.125,"batch_wait":4.250,"tokenize":0.250,"inference":28.000,"store":0.412,"total":45.037}',
    batch='{"id":"0123456789abcdef0123456789abcdef","size":7,"tokens":91,"padded_tokens":112,"close_reason":"slo",'
    '"batcher":"host-1234"}',
)


class Flood(msgspec.Struct, frozen=True, kw_only=True):
    """What to publish where, who receives it, and how many events may be out.

    Each job is watched by one of the sockets, or by each of them (``shared``).
    """

    redis_url: str
    channel: str
    url: str
    jobs: list[str]
    sockets: int
    shared: bool
    window: int
    seconds: float
    warm_s: float
    pids: dict[str, int] = {}


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """What came through: deliveries a second of changes and of ends, CPU in seconds while changes were counted."""

    per_s: float
    ends_per_s: float
    lost: int
    errors: int
    seconds: float
    cpu_s: dict[str, float]
    own_cpu_s: float

    def share(self, name: str) -> float:
        """Return the share of a core that a process used."""
        return self.cpu_s[name] / self.seconds

    def words(self) -> str:
        """Return the run on one line."""
        shares = {"generator": self.own_cpu_s, **self.cpu_s}
        used = ", ".join(f"{name} {100 * used_s / self.seconds:.0f} %" for name, used_s in shares.items())
        return f"{self.per_s:.0f} changes/s, {self.ends_per_s:.0f} ends/s; of a core: {used}"


class _Publisher(asyncio.Protocol):
    """Sends commands; what is answered to them says nothing new."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def publish(self, commands: list[bytes]) -> None:
        self._transport.write(b"".join(commands))

    def close(self) -> None:
        self._transport.close()


class _Run:
    def __init__(self, order: Flood) -> None:
        self._order = order
        self._fanout = order.sockets if order.shared else 1
        self._received = self._snapshots = self._errors = self._out = 0
        self._source: Iterator[bytes] = iter(())
        self._publisher: _Publisher | None = None
        self._settled = asyncio.Event()

    async def go(self) -> Flow:
        order = self._order
        to = target(order.redis_url)
        loop = asyncio.get_running_loop()
        _, self._publisher = await loop.create_connection(_Publisher, to.host, to.port)
        sockets = [await open_mux(order.url, self._greeted) for _ in range(order.sockets)]
        try:
            await self._subscribe(sockets)
            for socket in sockets:
                socket.take = self._take
            return await self._measure()
        finally:
            for socket in sockets:
                socket.close()
            self._publisher.close()

    async def _subscribe(self, sockets: list[MuxSocket]) -> None:
        order = self._order
        for number, socket in enumerate(sockets):
            socket.subscribe(order.jobs if order.shared else order.jobs[number :: order.sockets])
        wanted = len(order.jobs) * self._fanout
        over_s = time.monotonic() + PATIENCE_S + wanted / 2_000
        while self._snapshots < wanted:
            if time.monotonic() > over_s:
                raise ConnectionError(f"{self._snapshots} of {wanted} jobs were shown at the start")
            await asyncio.sleep(0.01)

    async def _measure(self) -> Flow:
        order = self._order
        meter = CpuMeter(order.pids)
        self._source = changes(order.channel, order.jobs)
        self._publish()
        await asyncio.sleep(order.warm_s)
        meter.restart()
        own_s, begun_s, before = time.process_time(), time.monotonic(), self._received
        await asyncio.sleep(order.seconds)
        came, seconds = self._received - before, time.monotonic() - begun_s
        cpu_s, own_s = meter.seconds(), time.process_time() - own_s
        self._source = iter(())
        lost = await self._all_received()
        begun_s, self._out, self._received = time.monotonic(), 0, 0
        self._source = ends(order.channel, order.jobs)
        self._publish()
        lost += await self._all_received()
        ends_s = time.monotonic() - begun_s
        return Flow(
            per_s=came / seconds,
            ends_per_s=self._received / ends_s,
            lost=lost,
            errors=self._errors,
            seconds=seconds,
            cpu_s=cpu_s,
            own_cpu_s=own_s,
        )

    async def _all_received(self) -> int:
        """Wait for what is out; return how many deliveries did not come in time."""
        over_s = time.monotonic() + PATIENCE_S
        while self._received < self._out * self._fanout and time.monotonic() < over_s:
            self._settled.clear()
            try:
                async with asyncio.timeout(over_s - time.monotonic()):
                    await self._settled.wait()
            except TimeoutError:
                break
        return self._out * self._fanout - self._received

    def _publish(self) -> None:
        """Publish as much as may be out."""
        assert self._publisher is not None, "it is connected"
        room = self._order.window - (self._out - self._received // self._fanout)
        commands = list(islice(self._source, max(0, room)))
        if commands:
            self._out += len(commands)
            self._publisher.publish(commands)
        else:
            self._settled.set()

    def _greeted(self, payload: bytes) -> None:
        kind = decode(payload).type
        self._snapshots += kind == SNAPSHOT
        self._errors += kind == ERROR

    def _take(self, payload: bytes) -> None:
        if payload.startswith(b'{"type":"error"'):
            self._errors += 1
            return
        self._received += 1
        # Neither one by one nor all at once.
        if self._received % (self._fanout * 32) == 0 or self._received >= self._out * self._fanout:
            self._publish()


def changes(channel: str, job_ids: list[str]) -> Iterator[bytes]:
    """Yield commands that announce changes of the jobs in turn, without end."""
    for seq in count(FIRST_SEQ):
        for job_id in job_ids:
            yield command(channel, job_id, "running", seq, _RUNNING)


def ends(channel: str, job_ids: list[str]) -> Iterator[bytes]:
    """Yield commands that announce the end of each job."""
    return (command(channel, job_id, "done", LAST_SEQ, _DONE) for job_id in job_ids)


def command(channel: str, job_id: str, status: str, seq: int, rest: str) -> bytes:
    """Return the command that announces a record, as the store's scripts do."""
    event = f'1 job.{status} {job_id} {seq}\n{{"job_id":"{job_id}","status":"{status}","seq":{seq}{rest}'
    return f"*3\r\n$7\r\nPUBLISH\r\n${len(channel)}\r\n{channel}\r\n${len(event)}\r\n{event}\r\n".encode()


async def flood(order: Flood) -> Flow:
    """Carry an order out; raises OSError where a server is not there or does not greet."""
    return await _Run(order).go()


def main() -> int:
    """Carry out the order on the standard input; 1 with one line when a server is not there."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Flood)
    # Nothing here makes cycles.
    gc.disable()
    try:
        flow = uvloop.run(flood(order))
    except (OSError, TimeoutError) as error:
        sys.stderr.write(f"event flood: {first_line(error)}\n")
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(flow))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
