"""What the commands send with a key, and where they do not send it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from inferq.cli.api import Api, KeyRefused, Refused, open_api
from inferq.ports import LOOPBACK

KEY = "S3CRET-0123456789"
JOB_ID = "0" * 32
RECORD = (
    f'{{"job_id":"{JOB_ID}","status":"done","seq":3,"model":"builtin","result":null,"error":null,"cached":false,'
    '"attempt":1,"deadline_at":null,"created_at":"2026-01-31T12:00:00.123Z","started_at":null,"finished_at":null,'
    '"timings_ms":null,"batch":null}'
).encode()


@dataclass(kw_only=True)
class Desk:
    """A server that keeps what it is asked, and gives the answers that are left, the last one for ever."""

    port: int = 0
    asked: list[bytes] = field(default_factory=list)
    answers: list[tuple[int, str, bytes]] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request and close."""
        head = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(head)
        status, more, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        writer.write(
            f"HTTP/1.1 {status} S\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{more}\r\n".encode()
            + body
        )
        await writer.drain()
        writer.close()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://{LOOPBACK}:{self.port}"


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    """A desk that listens."""
    it = Desk(answers=[(404, "", b"")])
    server = await asyncio.start_server(it.serve, LOOPBACK, 0)
    it.port = server.sockets[0].getsockname()[1]
    yield it
    server.close()
    await server.wait_closed()


def accepted(desk: Desk) -> tuple[int, str, bytes]:
    """The answer to a submit, whose push goes to the same desk."""
    return 202, "", f'{{"job_id":"{JOB_ID}","stream_url":"ws://{LOOPBACK}:{desk.port}/ws"}}'.encode()


async def test_the_key_goes_with_every_call(desk: Desk) -> None:
    """With the submit, with the WebSocket's handshake, and with the poll that follows where push fails."""
    desk.answers = [accepted(desk), (404, "", b""), (200, "", RECORD)]
    async with open_api(desk.url, key=KEY) as api:
        outcome = await api.run("good")
    assert outcome.raw == RECORD
    submit, push, poll = desk.asked
    assert submit.startswith(b"POST /v1/infer ")
    assert push.startswith(b"GET /ws ")
    assert poll.startswith(f"GET /v1/jobs/{JOB_ID} ".encode())
    for head in desk.asked:
        assert f"authorization: bearer {KEY}\r\n".lower().encode() in head.lower()


async def test_without_a_key_none_is_sent(desk: Desk) -> None:
    """No empty header either."""
    desk.answers = [accepted(desk), (404, "", b""), (200, "", RECORD)]
    async with open_api(desk.url) as api:
        await api.run("good")
    assert len(desk.asked) == 3
    assert not any(b"authorization" in head.lower() for head in desk.asked)


async def test_a_key_that_came_by_https_does_not_leave_in_the_clear(desk: Desk) -> None:
    """A push address without TLS is left alone then, as if push did not work."""
    async with open_api(desk.url) as lender:
        client = lender._client
        for url, calls in (("https://api.example", 0), ("http://api.example", 1)):
            api = Api(client, url, key=KEY, patience_s=1.0, follow_s=1.0)
            assert await api._pushed(f"ws://{LOOPBACK}:{desk.port}/ws") is None
            assert len(desk.asked) == calls


@pytest.mark.parametrize(("key", "which"), [(None, "an API key"), (KEY, "another API key")])
async def test_a_missing_or_wrong_key_is_the_callers_to_mend(desk: Desk, key: str | None, which: str) -> None:
    """One line with the cure ends the command, whatever it asked."""
    desk.answers = [(401, "", b'{"code":"unauthorized","detail":"x"}')]
    async with open_api(desk.url, key=key) as api:
        for call in (api.run("good"), api.read(JOB_ID), api.stats()):
            with pytest.raises(
                KeyRefused, match=f"asks for {which}: set INFERQ_API_KEY .+ --key-file"
            ) as caught:
                await call
            assert "S3CRET" not in str(caught.value)


async def test_a_used_up_quota_is_waited_out(desk: Desk) -> None:
    """429 is tried again as 503 is; once patience has ended it is the outcome."""
    used_up = (
        429,
        "Retry-After: 0\r\n",
        b'{"code":"quota_exceeded","detail":"this key may submit 1 jobs a second"}',
    )
    desk.answers = [used_up, used_up, accepted(desk), (404, "", b""), (200, "", RECORD)]
    async with open_api(desk.url, key=KEY) as api:
        assert (await api.run("good")).raw == RECORD
    assert [head.split()[0] for head in desk.asked] == [b"POST"] * 3 + [b"GET"] * 2
    desk.answers = [(429, "Retry-After: 30\r\n", used_up[2])]
    async with open_api(desk.url, key=KEY, patience_s=0.0) as api:
        refusal = (await api.run("good")).refusal
    assert isinstance(refusal, Refused)
    assert refusal.code == "quota_exceeded"
