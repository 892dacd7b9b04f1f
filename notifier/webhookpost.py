"""One try of one webhook: a POST, and what its answer makes of it.

No redirect is followed, no proxy of the environment used and no cookie kept. Of an answer the status counts and
`Retry-After`; its body is read only as far as is worth it to keep the connection.
"""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Final

import httpcore

from inferq.store import wall_ms
from inferq.webhooks.guard import Hosts
from inferq.webhooks.url import check
from notifier.webhooknetwork import GuardedNetwork, LookupFailed, Lookups, NotAllowed
from notifier.webhookplan import Outcome, Tried, answered

TRY_S: Final = 10.0
DRAIN_S: Final = 1.0
MOST_BODY_BYTES: Final = 4096
MOST_PIECES: Final = 64
# More than there are tries at a time.
MOST_CONNECTIONS: Final = 160
MOST_IDLE: Final = 32
# Less than servers usually keep a connection, so that none is closed from both sides at once.
IDLE_S: Final = 2.0
USER_AGENT: Final = "inferq-webhooks/1"


class Poster:
    """Posts to hosts that are public, or listed in ``hosts``."""

    def __init__(self, hosts: Hosts, *, lookups: Lookups | None = None, try_s: float = TRY_S) -> None:
        self._hosts, self._try_s = hosts, try_s
        tls = httpcore.default_ssl_context()
        # Those of the system too, where an operator puts an authority of his own.
        tls.load_default_certs()
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls,
            max_connections=MOST_CONNECTIONS,
            max_keepalive_connections=MOST_IDLE,
            keepalive_expiry=IDLE_S,
            network_backend=GuardedNetwork(hosts, lookups or Lookups()),
        )

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Tried:
        """Try once, in bounded time."""
        try:
            target = check(url, self._hosts)
        except ValueError:
            return Tried(outcome=Outcome.NOT_ALLOWED)
        fields = {
            "Host": target.authority,
            "User-Agent": USER_AGENT,
            "Content-Type": "application/json",
            "Accept": "*/*",
            "Content-Length": str(len(body)),
            **headers,
        }
        request = httpcore.Request(
            "POST",
            httpcore.URL(
                scheme=target.scheme.encode(),
                host=target.host.encode(),
                port=target.port,
                target=target.path.encode(),
            ),
            headers=[(name.encode(), value.encode()) for name, value in fields.items()],
            content=body,
        )
        try:
            async with asyncio.timeout(self._try_s):
                response = await self._pool.handle_async_request(request)
        except (TimeoutError, httpcore.TimeoutException):
            return Tried(outcome=Outcome.TIMEOUT)
        except NotAllowed:
            return Tried(outcome=Outcome.NOT_ALLOWED)
        except LookupFailed:
            return Tried(outcome=Outcome.DNS)
        except (httpcore.ConnectError, ssl.SSLError) as error:
            return Tried(outcome=Outcome.TLS if _is_tls(error) else Outcome.CONNECT)
        except (httpcore.NetworkError, httpcore.ProtocolError, OSError):
            return Tried(outcome=Outcome.PROTOCOL)
        await _drain(response)
        after = next((value for name, value in response.headers if name.lower() == b"retry-after"), b"")
        return answered(response.status, retry_after=after.decode("latin-1"), now_ms=wall_ms())

    async def close(self) -> None:
        """End all connections."""
        await self._pool.aclose()


def _is_tls(error: BaseException | None) -> bool:
    """Say whether TLS failed: what did stands behind the errors of two libraries."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error is not None


async def _drain(response: httpcore.Response) -> None:
    """Read a short body, so that the connection can be used again; whatever else it is ends the connection."""
    read_bytes = pieces = 0
    try:
        async with asyncio.timeout(DRAIN_S):
            async for piece in response.aiter_stream():
                read_bytes += len(piece)
                pieces += 1
                if read_bytes > MOST_BODY_BYTES or pieces > MOST_PIECES:
                    break
    except (TimeoutError, httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError, OSError):
        pass
    finally:
        await response.aclose()
