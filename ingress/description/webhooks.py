"""The requests that inferq sends to a job's `webhook`, as the API's description shows them. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from ingress.description.examples import JOB_ID
from ingress.description.frames import FinalFrame

_TEXT: Final = (
    "Sent to the `webhook` that a job was submitted with, once the job has ended, as Standard Webhooks "
    "(standardwebhooks.com) says. It is sent until it is taken, with growing pauses, for a day; so it may come more "
    "than once: `webhook-id` tells a request that comes again. Redirects are not followed. Verify the signature before "
    "anything else, with one of the published libraries."
)


def _header(name: str, text: str, example: str | int, **schema: Any) -> Mapping[str, Any]:
    schema = {"type": "string", **schema}
    return {
        "name": name,
        "in": "header",
        "required": True,
        "description": text,
        "schema": schema,
        "example": example,
    }


HEADERS: Final = (
    _header(
        "webhook-id",
        "Names the message: the same on every try.",
        f"msg_{JOB_ID}_3",
        minLength=1,
    ),
    _header(
        "webhook-timestamp",
        "When this try was sent, in seconds since the epoch. Refuse one that is minutes away from now.",
        1769860800,
        type="integer",
        minimum=0,
    ),
    _header(
        "webhook-signature",
        "Signatures with spaces between them, of which one has to verify: `v1,` and the base64 of the HMAC-SHA256 over "
        "`webhook-id`, `webhook-timestamp` and the body's bytes, with dots between them.",
        "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
        pattern=r"^v1,[A-Za-z0-9+/]+=*( v1[a-z]?,[A-Za-z0-9+/]+=*)*$",
    ),
)


def webhooks() -> dict[str, Any]:
    """Return the `webhooks` of the document."""
    return {
        "jobEnded": {
            "post": {
                "operationId": "jobEnded",
                "summary": "A job has ended",
                "description": _TEXT,
                "security": [],
                "parameters": [dict(one) for one in HEADERS],
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {
                            "schema": {"$ref": f"#/components/schemas/{FinalFrame.__name__}"},
                            "examples": {"ended": {"$ref": "#/components/examples/ended"}},
                        }
                    },
                },
                "responses": {
                    "2XX": {"description": "It is taken, and not sent again."},
                    "410": {"description": "Nobody wants it any more: it is not sent again."},
                    "default": {
                        "description": "It is sent again later, and a `Retry-After` is heeded; so too without an "
                        "answer."
                    },
                },
            }
        }
    }
