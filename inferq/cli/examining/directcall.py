"""One call of a batcher, past the queue: a text, or zeros where its model takes tensors. It is computed, not looked up.

What the model takes, the batcher says itself, so that nothing of its files need be here.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec

from inferq.addresses import host_port
from inferq.cli.credentials import NO_KEY
from inferq.cli.examining.onejob import FREE_AXES, SAMPLE
from inferq.runfile import RunningService
from inferq.tensors.binary import HEADER, join
from inferq.tensors.datatypes import LAYOUTS, Datatype
from inferq.v2.answers import CallFault, ModelAnswer, ModelMetadata, TensorMetadata
from inferq.v2.requests import TEXT

if TYPE_CHECKING:
    from httpx import AsyncClient, Response

CALL_S: Final = 10.0
# The call's own time is over first.
_LONGER_S: Final = 2.0
# For several tries; whoever answers there need not be ours, and may do it byte by byte.
_WHOLE_S: Final = 45.0

_LOG: Final = "see the batcher's log"
_CURES: Final[Mapping[int, str]] = {
    HTTPStatus.UNAUTHORIZED: NO_KEY,
    HTTPStatus.FORBIDDEN: "allow it in INFERQ_ORIGINS, or set INFERQ_API_KEYS",
    HTTPStatus.NOT_FOUND: "restart it: it is of another version, or serves another model by now",
    HTTPStatus.TOO_MANY_REQUESTS: "ask again once it has less to do",
    HTTPStatus.INTERNAL_SERVER_ERROR: f"{_LOG}, and try its files with `inferq model check`",
    HTTPStatus.SERVICE_UNAVAILABLE: f"ask again in a moment; if it stays so, {_LOG}, and restart it",
    HTTPStatus.GATEWAY_TIMEOUT: "its engine hangs, or has more to do than it can: restart it, or start another",
}


class CallFailed(Exception):
    """A batcher does not answer a call; ``cure`` says what to do."""

    def __init__(self, detail: str, cure: str) -> None:
        super().__init__(detail)
        self.cure = cure


async def call_batcher(service: RunningService, model: str, key: str | None) -> str:
    """Call the model that a batcher serves; return the names of what it answers.

    Raises:
        CallFailed: it does not answer as it should.
    """
    # Imported here: commands that call nothing start without it.
    from httpx import AsyncClient, HTTPError, Timeout

    headers = {"Cache-Control": "no-cache"} | ({} if key is None else {"Authorization": f"Bearer {key}"})
    address = f"http://{host_port(service.host, service.port)}/v2/models/{model}"
    try:
        # A proxy of the environment is not for a process of ours.
        async with (
            asyncio.timeout(_WHOLE_S),
            AsyncClient(headers=headers, timeout=Timeout(CALL_S + _LONGER_S), trust_env=False) as client,
        ):
            return await _call(client, address)
    except TimeoutError:
        raise CallFailed(
            f"a call comes to no end within {_WHOLE_S:.0f} s", _CURES[HTTPStatus.GATEWAY_TIMEOUT]
        ) from None
    except HTTPError as error:
        raise CallFailed(f"a call breaks off ({type(error).__name__})", _LOG) from error
    except (msgspec.DecodeError, ValueError, MemoryError, OverflowError) as error:
        raise CallFailed(
            "it answers a call otherwise than the protocol says", _CURES[HTTPStatus.NOT_FOUND]
        ) from error


async def _call(client: "AsyncClient", address: str) -> str:
    said = msgspec.json.decode(_good(await client.get(address)), type=ModelMetadata)
    texts = any(one.name == TEXT and one.datatype not in Datatype.__members__ for one in said.inputs)
    free = any(axis < 0 for one in said.inputs for axis in one.shape[1:])
    *shorter, last = FREE_AXES if free and not texts else FREE_AXES[:1]
    for length in shorter:
        response = await _infer(client, address, said.inputs, length, texts=texts)
        if response.status_code != HTTPStatus.INTERNAL_SERVER_ERROR:
            break
    else:
        response = await _infer(client, address, said.inputs, last, texts=texts)
    answered = msgspec.json.decode(_good(response), type=ModelAnswer)
    return ", ".join(one.name for one in answered.outputs)


async def _infer(
    client: "AsyncClient", address: str, inputs: Sequence[TensorMetadata], free: int, *, texts: bool
) -> "Response":
    head: dict[str, Any] = {"parameters": {"timeout": round(CALL_S * 1e6)}}
    if texts:
        head["inputs"] = [{"name": TEXT, "datatype": "BYTES", "shape": [1], "data": [SAMPLE]}]
        return await client.post(f"{address}/infer", json=head)
    head["inputs"], tail = [], []
    for one in inputs:
        first, *others = one.shape or [1]
        shape = [1 if first < 0 else first, *(free if axis < 0 else axis for axis in others)]
        tail.append(bytes(math.prod(shape) * LAYOUTS[Datatype(one.datatype)].size_bytes))
        head["inputs"].append(
            {
                "name": one.name,
                "datatype": one.datatype,
                "shape": shape,
                "parameters": {"binary_data_size": len(tail[-1])},
            }
        )
    body, length = join(msgspec.json.encode(head), tail)
    form = {HEADER: length, "Content-Type": "application/octet-stream"}
    return await client.post(f"{address}/infer", content=body, headers=form)


def _good(response: "Response") -> bytes:
    """Return an answer's body; raises `CallFailed` for one that is an error."""
    if response.status_code == HTTPStatus.OK:
        return response.content
    try:
        why = msgspec.json.decode(response.content, type=CallFault).error
    except msgspec.DecodeError:
        why = "no reason is given"
    raise CallFailed(
        f"it answers a call {response.status_code}: {why}", _CURES.get(response.status_code, _LOG)
    )
