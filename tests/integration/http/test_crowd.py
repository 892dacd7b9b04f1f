"""How many connections a server holds, and who is heard beyond that."""

import asyncio

import pytest

from inferq.httplimits import MOST_CONNECTIONS, HttpLimits
from tests.httpserver import Peer, Served, get, post, served
from tests.support import eventually


async def fill(it: Served, count: int) -> list[Peer]:
    """Open connections that are in use."""
    peers = [await it.peer(get()) for _ in range(count)]
    for peer in peers:
        assert (await peer.answer()).status == 200
    assert it.open == count
    return peers


async def test_a_connection_beyond_the_limit() -> None:
    """Its request is 503 with `Retry-After`, it is closed, and the others go on; room that is made is used."""
    async with served(connections=3) as it:
        peers = await fill(it, 3)
        for request in (get(), get("/healthz/"), post("/read", b"abc")):
            extra = await it.peer(request)
            answer = await extra.answer()
            answer.problem(503, "unavailable")
            assert answer.headers["retry-after"] == "1"
            await extra.ends()
        assert it.refused("connections") == 3
        assert it.pace.paths == ["/"] * 3
        for peer in peers:
            await peer.send(get())
            answer = await peer.answer()
            assert (answer.status, answer.last) == (200, False)
        peers[0].writer.close()
        await eventually(lambda: it.open == 2, what="room")
        await it.works()


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_probes_are_heard_in_a_crowd(path: str) -> None:
    """A probe beyond the limit is answered, once."""
    async with served(connections=1) as it:
        await fill(it, 1)
        probe = await it.peer(get(path) + get(path))
        answer = await probe.answer()
        assert (answer.status, answer.last) == (200, True)
        await probe.ends()
        assert it.refused("connections") == 0


async def test_silent_connections_do_not_shut_out_probes() -> None:
    """Where all places beyond the limit are held by silent connections, the oldest makes room for the newest."""
    async with served(connections=1, crowd_connections=2) as it:
        await fill(it, 1)
        silent = [await it.peer(part) for part in (b"", b"GET /rea", b"")]
        answer = await silent[0].answer()
        answer.problem(503, "unavailable")
        assert answer.headers["retry-after"] == "1"
        await silent[0].ends()
        assert (await (await it.peer(get("/readyz"))).answer()).status == 200
        await silent[1].answer()
        assert it.refused("connections") == 2
        it.sweep(10)
        await silent[2].ends()


async def test_no_place_beyond_the_limit() -> None:
    """Where nobody can make room, the newest is refused unread."""
    async with served(connections=1, crowd_connections=0) as it:
        (peer,) = await fill(it, 1)
        extra = await it.peer()
        (await extra.answer()).problem(503, "unavailable")
        await extra.ends()
        await peer.send(get())
        assert (await peer.answer()).status == 200
        assert it.refused("connections") == 1


async def test_a_rush() -> None:
    """Of many at once as many are served as may be, and every other one is refused: none is left waiting."""
    async with served(connections=20, crowd_connections=5) as it:
        peers = await asyncio.gather(*(it.peer(get()) for _ in range(200)))

        async def status(peer: Peer) -> int:
            try:
                return (await peer.answer()).status
            except (ConnectionError, asyncio.IncompleteReadError):
                # Refused unread, after it had sent: the refusal may be lost.
                return 503

        statuses = await asyncio.gather(*(status(peer) for peer in peers))
        assert set(statuses) == {200, 503}
        assert statuses.count(200) >= 20
        assert it.refused("connections") == statuses.count(503)
        assert it.open <= 25


async def test_the_limit_by_itself() -> None:
    """It is what the process may open, less a reserve, and never more than ten thousand."""
    assert 1 <= HttpLimits().connections <= MOST_CONNECTIONS
