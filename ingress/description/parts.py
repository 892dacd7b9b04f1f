"""The parts of the API's description that several operations share: parameters, header fields, security. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from ingress.description.examples import ETAG, JOB_ID
from ingress.idemkey import MAX_KEY
from ingress.prefer import MOST_S

_TOKENS: Final = rf"^[\u0021-\u007e]{{1,{MAX_KEY}}}$"

PARAMETERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "JobId": {
        "name": "job_id",
        "in": "path",
        "required": True,
        "description": "The job's id, as the submit answered it.",
        "schema": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
        "example": JOB_ID,
    },
    "Model": {
        "name": "model",
        "in": "path",
        "required": True,
        "description": "The model's name.",
        "schema": {"type": "string", "minLength": 1},
        "example": "builtin",
    },
    "ModelVersion": {
        "name": "version",
        "in": "path",
        "required": True,
        "description": "The model's version. There is one of each: a model is what its folder holds.",
        "schema": {"type": "string", "const": "1"},
        "example": "1",
    },
    "HeaderLength": {
        "name": "Inference-Header-Content-Length",
        "in": "header",
        "description": "How many bytes of the body are its JSON; the values of tensors follow as bytes. Absent: it is "
        "all JSON.",
        "schema": {"type": "string", "pattern": "^[0-9]{1,18}$"},
        "example": "151",
    },
    "IdempotencyKey": {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "Makes the request safe to repeat: the first answer 202 is kept as long as results are, and "
        "comes again with `Idempotent-Replayed: true`. A twin that comes while the first one is at work waits for its "
        "outcome. A key counts for one API key and one path; with another body it is a 422. Refusals are not kept. To "
        "be given once.",
        "schema": {"type": "string", "pattern": _TOKENS, "minLength": 1, "maxLength": MAX_KEY},
        "example": "order-4711-review",
    },
    "CacheControl": {
        "name": "Cache-Control",
        "in": "header",
        "description": "`no-cache` or `no-store`: the job runs by itself, and its result is neither taken from a cache "
        "nor kept in one. Other directives say nothing.",
        "schema": {"type": "string"},
        "example": "no-cache",
    },
    "Prefer": {
        "name": "Prefer",
        "in": "header",
        "description": "`wait=N` (RFC 7240): the answer may take up to N seconds, and is the final record if the job "
        "has ended by then. N is 1 to 60; a larger one counts as 60. A preference that is malformed, or of another "
        "kind, is passed over. Where as many clients wait as may, the answer comes at once.",
        "schema": {"type": "string"},
        "example": "wait=10",
    },
    "Wait": {
        "name": "wait",
        "in": "query",
        "description": "Answer once the job has ended, after so many seconds at the latest. Where as many clients wait "
        "as may, the answer comes at once.",
        "schema": {"type": "integer", "minimum": 1, "maximum": MOST_S},
        "example": 10,
    },
    "LastEventId": {
        "name": "Last-Event-ID",
        "in": "header",
        "description": "The `seq` that the client was told last, as an EventSource sends it: the stream then begins "
        "behind it. What is no number counts as none.",
        "schema": {"type": "string"},
        "example": "2",
    },
    "IfNoneMatch": {
        "name": "If-None-Match",
        "in": "header",
        "description": "Entity tags that the client has; 304 when the present one is among them.",
        "schema": {"type": "string"},
        "example": ETAG,
    },
}


def _field(
    name: str, text: str, example: str | int, *, required: bool = False, **schema: Any
) -> tuple[str, dict[str, Any]]:
    made = {"description": text, "schema": {"type": "string", **schema}, "example": example}
    return name, {**made, "required": True} if required else made


# By part: the field's name, and what it is.
HEADER_FIELDS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "Location": _field(
        "Location",
        "Where to poll the job.",
        f"/v1/jobs/{JOB_ID}",
        required=True,
        format="uri-reference",
        pattern="^/v1/jobs/[0-9a-f]{32}$",
    ),
    "Content-Location": _field(
        "Content-Location",
        "Whose record the body is.",
        f"/v1/jobs/{JOB_ID}",
        required=True,
        format="uri-reference",
        pattern="^/v1/jobs/[0-9a-f]{32}$",
    ),
    "Preference-Applied": _field(
        "Preference-Applied",
        "How long it was waited, in vain. Absent where nothing was preferred, and where it was not waited as long.",
        "wait=10",
        pattern="^wait=[1-9][0-9]?$",
    ),
    "Preference-Applied.required": _field(
        "Preference-Applied",
        "How long the answer might have taken.",
        "wait=10",
        required=True,
        pattern="^wait=[1-9][0-9]?$",
    ),
    "X-Accel-Buffering": _field(
        "X-Accel-Buffering", "Tells proxies not to hold the stream back.", "no", required=True, const="no"
    ),
    "Inference-Header-Content-Length": _field(
        "Inference-Header-Content-Length",
        "How many bytes of the body are its JSON. Absent where it is all JSON.",
        151,
        type="integer",
        minimum=1,
    ),
    "Idempotent-Replayed": _field(
        "Idempotent-Replayed",
        "This is the answer to an earlier request with the same `Idempotency-Key`; absent on a first answer.",
        "true",
        const="true",
    ),
    "RateLimit": _field(
        "RateLimit",
        "How many jobs the key may still submit (`r`), and in how many seconds all of them again (`t`): policy "
        '"rate" counts submits, "jobs" unfinished jobs. Absent where the key has no quota, and on replays.',
        '"rate";r=48;t=1, "jobs";r=975',
    ),
    "RateLimit-Policy": _field(
        "RateLimit-Policy",
        'What the key may do: "rate" is `q` jobs in `w` seconds, "jobs" is `q` unfinished ones. Absent where the '
        "key has no quota, and on replays.",
        '"rate";q=50;w=1, "jobs";q=1000',
    ),
    "Retry-After": _field(
        "Retry-After",
        "In how many seconds the same call may pass; for a full queue by its depth and by how fast it drains.",
        3,
        required=True,
        type="integer",
        minimum=1,
    ),
    "WWW-Authenticate": _field(
        "WWW-Authenticate", "How to give a key.", 'Bearer realm="inferq"', required=True
    ),
    "Connection": _field(
        "Connection",
        "The connection is closed after an answer before the body's end.",
        "close",
        const="close",
    ),
    "Allow": _field("Allow", "The methods that the path takes.", "GET, HEAD", required=True),
    "ETag": _field("ETag", "Names this version, for `If-None-Match`.", ETAG, required=True),
    "Cache-Control": _field(
        "Cache-Control",
        "May be kept, and is to be asked for again each time.",
        "no-cache",
        required=True,
        const="no-cache",
    ),
    "Cache-Control.no-store": _field(
        "Cache-Control",
        "It changes: no cache may keep it.",
        "no-store",
        required=True,
        const="no-store",
    ),
}

BEARER: Final = {
    "type": "http",
    "scheme": "bearer",
    "description": "An API key, as `Authorization: Bearer <key>`, once. Where the operator has set no keys none "
    "is asked for.",
}
