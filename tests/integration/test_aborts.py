"""Clients that break off their requests at any point harm nobody: no reply goes astray, no connection stays behind."""

from collections.abc import Iterable

import psutil

from inferq.messages import decode_job
from inferq.server import Server
from loadgen.aborts import aborted_and_good
from tests.deployment import Deployment
from tests.serving import ready, serving
from tests.support import eventually, kept

ABORTS = 1_000
GOOD = 100
# What pools of connections to Redis may have grown by meanwhile.
POOLED = 5


async def test_good_requests_beside_aborted_ones(either: Deployment) -> None:
    """Each of 200 good callers, half of them amid 1,000 aborts, has the id of the job with its own text."""
    async with serving(either, INFERQ_QUEUE_LIMIT="10000") as client:
        await eventually(lambda: ready(client), what="readiness")
        await client.aclose()
        port = client.base_url.port
        assert port is not None
        # Whatever this process keeps open is open by now.
        await either.open_jobs()
        await eventually(lambda: not _open(port), what="the end of our own connections")
        before = _files()
        answered, met = await aborted_and_good(
            str(client.base_url), aborts=ABORTS, good=GOOD, at_once=64, seed=5
        )
        # A quarter of the clients reset the connection when the first byte of an answer was there.
        assert met == ABORTS // 4
        assert len(set(answered.values())) == len(answered) >= 2 * GOOD
        assert await _crossed(either, answered) == []
        await eventually(lambda: not _open(port), what="the end of every connection in the system")
        await eventually(lambda: not _served(), what="the end of every connection in the server")
        await eventually(lambda: _files() <= before + POOLED, what=f"hardly more than {before} open files")


async def _crossed(either: Deployment, answered: dict[str, str]) -> list[str]:
    """Return the ids whose job has another text than the caller that got the id."""
    messages = await either.redis.commands.call_all(
        [("HGET", either.names.job(job_id), "message") for job_id in answered]
    )
    pairs: Iterable[tuple[str, bytes]] = zip(answered, messages, strict=True)
    return [job_id for job_id, message in pairs if decode_job(message).text != answered[job_id]]


def _open(port: int) -> list[object]:
    """Return this process's connections to a port of ours, both ends, but for the listener."""
    return [
        one
        for one in psutil.Process().net_connections("tcp")
        # One that is not connected has no other end.
        if one.status != psutil.CONN_LISTEN
        and port in {getattr(end, "port", 0) for end in (one.laddr, one.raddr)}
    ]


def _served() -> int:
    """Count the connections and tasks that the HTTP server still has."""
    servers = [one for one in kept(Server) if one.started]
    assert servers
    return sum(len(one.server_state.connections) + len(one.server_state.tasks) for one in servers)


def _files() -> int:
    return psutil.Process().num_fds()
