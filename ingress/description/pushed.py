"""The description of what is pushed: AsyncAPI 3.0, from the types of the frames.

In AsyncAPI's words the services *send* what clients receive. `ADDRESS` stands where the address of the ingress goes,
which each reader's own request tells.
"""

from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from ingress.description.examples import EXAMPLES, JOB_ID, frame_of
from ingress.description.frames import (
    MEANINGS,
    PUSHED,
    SAID,
    Auth,
    ErrorFrame,
    JobFrame,
    Subscribe,
    Unsubscribe,
)
from ingress.description.parts import BEARER
from ingress.description.schemas import schemas

ADDRESS: Final = "address.invalid"

_TEXT: Final = """\
What becomes of jobs, as it happens. Every record and every change of it comes in the same frame, on the WebSocket \
`/ws` and as Server-Sent Events; `/ws/jobs/{job_id}` sends the bare final record and nothing else.

A frame may come more than once: `job_id` and `seq` tell. Of changes that come faster than a client reads, the last \
one stands for all. The final state always comes, even where its `seq` is lower than before, since a record that was \
lost is rebuilt and counts from 1 again. Who comes back says which `seq` it was told last, and is sent what it \
missed."""

_CLOSES: Final = """\
An API key goes into `Authorization: Bearer <key>` of the handshake, or into the message `auth`, sent first and within \
5 s. Refusals accept the connection and then close it, so that browsers see the code: 1000 all is said, 1009 a \
message is larger than 256 KiB, 1011 a ping was not answered, or the service failed, 1012 it restarts, 4008 the client \
does not read what it is sent, 4400 a message is none of these (an error frame says what is wrong), 4401 no valid \
API key, 4403 the `Origin` is not allowed, 4404 no such job or path, 4429 too many connections, jobs or frames. The \
server pings; a client that does not answer is taken to be gone."""

_WEBSOCKET: Final = {
    "ws": {
        "method": "GET",
        "headers": {
            "type": "object",
            "properties": {
                "Authorization": {
                    "type": "string",
                    "description": "`Bearer` and an API key, where keys are asked for.",
                },
                "Origin": {
                    "type": "string",
                    "description": "Sent by browsers; one that is not allowed is refused with 4403.",
                },
            },
        },
        "bindingVersion": "0.1.0",
    }
}


def asyncapi(*, version: str, stream_url: str) -> dict[str, Any]:
    """Return the description; ``stream_url`` is what the notifier's addresses begin with."""
    notifier = urlsplit(stream_url)
    security = [{"$ref": "#/components/securitySchemes/bearer"}]
    path = notifier.path.rstrip("/")
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "inferq",
            "version": version,
            "description": _TEXT,
            "license": {"name": "Apache-2.0"},
            "externalDocs": {
                "url": f"http://{ADDRESS}/openapi.json",
                "description": "The HTTP API, where jobs are submitted",
            },
        },
        "defaultContentType": "application/json",
        "servers": {
            "notifier": {
                "host": notifier.netloc,
                **({"pathname": path} if path else {}),
                "protocol": notifier.scheme,
                "description": "Pushes over WebSocket.",
                "security": security,
            },
            "ingress": {
                "host": ADDRESS,
                "protocol": "http",
                "description": "This service, which streams Server-Sent Events.",
                "security": security,
            },
        },
        "channels": _channels(),
        "operations": _operations(),
        "components": {
            "messages": {name: _message(name) for name in _MESSAGES},
            "schemas": schemas(SAID, PUSHED, MEANINGS),
            "parameters": {"JobId": {"description": "The job's id, as the submit answered it."}},
            "securitySchemes": {"bearer": BEARER},
        },
    }


def _channels() -> dict[str, Any]:
    return {
        "jobs": {
            "address": "/ws",
            "title": "Many jobs on one connection",
            "description": "A client subscribes to jobs and is sent a snapshot of each, then every change. A "
            "subscription ends by itself after the job's final state. " + _CLOSES,
            "servers": [{"$ref": "#/servers/notifier"}],
            "messages": _listed("snapshot", "change", "error", "subscribe", "unsubscribe", "auth"),
            "bindings": _WEBSOCKET,
        },
        "job": {
            "address": "/ws/jobs/{job_id}",
            "title": "One job's end",
            "description": "The final record comes as soon as the job has ended, and the connection is closed with "
            "1000. " + _CLOSES,
            "servers": [{"$ref": "#/servers/notifier"}],
            "parameters": {"job_id": {"$ref": "#/components/parameters/JobId"}},
            "messages": _listed("record", "auth"),
            "bindings": _WEBSOCKET,
        },
        "events": {
            "address": "/v1/jobs/{job_id}/events",
            "title": "One job as Server-Sent Events",
            "description": "`event` is the frame's type, `id` its `seq`, `data` the frame. First comes a snapshot, "
            "unless `Last-Event-ID` is its `seq` and it is not final; then every change; after a final state the "
            "stream ends. 204 says that nothing more will come. `/openapi.json` has the answers in full.",
            "servers": [{"$ref": "#/servers/ingress"}],
            "parameters": {"job_id": {"$ref": "#/components/parameters/JobId"}},
            "messages": _listed("snapshot", "change", "error"),
        },
    }


def _operations() -> dict[str, Any]:
    made = {}
    for name, action, channel, summary, messages in (
        ("pushJobs", "send", "jobs", "Tell what becomes of jobs", ("snapshot", "change", "error")),
        (
            "followJobs",
            "receive",
            "jobs",
            "Take what a client wants to follow",
            ("subscribe", "unsubscribe", "auth"),
        ),
        ("pushRecord", "send", "job", "Send the final record", ("record",)),
        ("admit", "receive", "job", "Take an API key", ("auth",)),
        ("streamEvents", "send", "events", "Stream what becomes of a job", ("snapshot", "change", "error")),
    ):
        at = f"#/channels/{channel}"
        made[name] = {
            "action": action,
            "channel": {"$ref": at},
            "summary": summary,
            "messages": [{"$ref": f"{at}/messages/{one}"} for one in messages],
        }
    return made


_RUNNING: Final = {**EXAMPLES["queued"][1], "status": "running", "seq": 2, "attempt": 1}
# By name: its type, what it is, and examples.
_MESSAGES: Final[dict[str, tuple[type[msgspec.Struct] | str, str, tuple[Any, ...]]]] = {
    "snapshot": (JobFrame, "A record as it was found", (frame_of(EXAMPLES["queued"][1], "snapshot"),)),
    "change": (JobFrame, "A record has changed", (frame_of(_RUNNING), EXAMPLES["ended"][1])),
    "error": (
        ErrorFrame,
        "A message is wrong, or a job is not to be had",
        (
            {"type": "error", "code": "not_found", "detail": "no such job", "job_id": JOB_ID},
            {"type": "error", "code": "bad_message", "detail": "the message is not JSON"},
        ),
    ),
    "record": ("JobRecord", "The final record", (EXAMPLES["done"][1],)),
    "subscribe": (
        Subscribe,
        "Follow jobs",
        (
            {"action": "subscribe", "job_ids": [JOB_ID]},
            {"action": "subscribe", "job_ids": [JOB_ID], "after": {JOB_ID: 2}},
        ),
    ),
    "unsubscribe": (Unsubscribe, "Follow jobs no more", ({"action": "unsubscribe", "job_ids": [JOB_ID]},)),
    "auth": (Auth, "Give an API key", ({"action": "auth", "key": "a-key-of-16-characters-or-more"},)),
}
_TYPES: Final = {
    "snapshot": {"properties": {"type": {"const": "snapshot"}}},
    "change": {"properties": {"type": {"pattern": r"^job\."}}},
}


def _message(name: str) -> dict[str, Any]:
    kind, title, examples = _MESSAGES[name]
    of = {"$ref": f"#/components/schemas/{kind if isinstance(kind, str) else kind.__name__}"}
    return {
        "name": name,
        "title": title,
        "contentType": "application/json",
        "payload": {"allOf": [of, _TYPES[name]]} if name in _TYPES else of,
        "examples": [{"payload": example} for example in examples],
    }


def _listed(*names: str) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/messages/{name}"} for name in names}
