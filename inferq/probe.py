"""Asks a server of this project how it is: one small HTTP request, without a client library."""

import asyncio
from dataclasses import dataclass
from typing import Final

import msgspec

from inferq.addresses import host_port

TIMEOUT_S: Final = 2.0
_MOST_BYTES: Final = 65_536


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back; ``status`` is 0, and ``reason`` says why, when nothing did."""

    status: int
    body: bytes = b""
    reason: str = ""

    @property
    def ok(self) -> bool:
        """Whether the server answered 200."""
        return self.status == 200

    @property
    def complaint(self) -> str:
        """What is not well, in a few words; empty when all is."""
        if self.ok:
            return ""
        if self.status == 0:
            return self.reason
        checks = self._checks()
        wrong = [f"{name}: {state}" for name, state in checks.items() if state != "ok"]
        return ", ".join(wrong) or f"it answers {self.status}"

    def _checks(self) -> dict[str, str]:
        try:
            return msgspec.json.decode(self.body, type=_Readiness).checks
        except msgspec.DecodeError:
            return {}


class _Readiness(msgspec.Struct):
    checks: dict[str, str]


async def ask(host: str, port: int, path: str, *, timeout_s: float = TIMEOUT_S) -> Answer:
    """Return what ``GET path`` answers, within ``timeout_s``."""
    try:
        async with asyncio.timeout(timeout_s):
            return await _get(host, port, path)
    except TimeoutError:
        return Answer(status=0, reason=f"no answer within {timeout_s:g} s")
    except (ValueError, IndexError, asyncio.LimitOverrunError):
        # No number where the status should be, or a head without an end
        return Answer(status=0, reason="it speaks no HTTP")
    except (OSError, EOFError) as error:
        reason = (
            "nothing listens there" if isinstance(error, ConnectionRefusedError) else type(error).__name__
        )
        return Answer(status=0, reason=reason)


async def _get(host: str, port: int, path: str) -> Answer:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        name = host_port(host, port)
        request = (
            f"GET {path} HTTP/1.1\r\nHost: {name}\r\nAccept: application/json\r\nConnection: close\r\n\r\n"
        )
        writer.write(request.encode("ascii"))
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        status = int(head.split(" ", 2)[1])
        lengths = [line.split(":")[1] for line in head.split("\r\n") if line.startswith("content-length:")]
        body = await reader.readexactly(min(int(lengths[0]), _MOST_BYTES)) if lengths else b""
        return Answer(status=status, body=body)
    finally:
        writer.close()


def reachable(host: str) -> str:
    """Return where to reach a server that listens on ``host``, which may stand for every address."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
