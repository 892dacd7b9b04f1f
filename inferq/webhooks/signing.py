"""The secrets that webhooks are signed with, and what is sent with each. Pure.

Standard Webhooks (symmetric, `v1`): a secret is `whsec_` and base64 of 24 to 64 bytes, and the signature is over id,
time and body. The published library makes it, and the same library checks it on the other side.

Every API key has a secret of its own, HMAC-SHA256 of its name under the deployment's: who knows one can neither forge
another key's webhooks nor find the deployment's.
"""

import base64
import binascii
import hashlib
import hmac
from datetime import UTC, datetime
from typing import Final

from standardwebhooks import Webhook

PREFIX: Final = "whsec_"
FORM: Final = (
    "empty, or whsec_ and base64 of 24 to 64 bytes; `echo whsec_$(openssl rand -base64 32)` makes one"
)
NEW_BYTES: Final = 32
"""How long a new secret is."""


def check_secret(text: str) -> str:
    """Return a secret as it stands, be it empty; raises ValueError with what is allowed."""
    if text:
        _bytes(text)
    return text


def spelled(secret: bytes) -> str:
    """Write a secret down."""
    return PREFIX + base64.b64encode(secret).decode()


def secret_of(deployment: str, name: str) -> str:
    """Return the secret of an API key by the key's name; "" stands for jobs that came in without a key."""
    return spelled(hmac.digest(_bytes(deployment), name.encode(), hashlib.sha256))


def signed(secret: str, *, webhook_id: str, at_ms: float, body: bytes) -> dict[str, str]:
    """Return the header fields of one try of one webhook; ``at_ms`` is the time of the try since the epoch."""
    at = datetime.fromtimestamp(int(at_ms / 1000), UTC)
    return {
        "webhook-id": webhook_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign(webhook_id, at, body.decode()),
    }


def _bytes(text: str) -> bytes:
    try:
        secret = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if not text.startswith(PREFIX) or not 24 <= len(secret) <= 64:
        raise ValueError(FORM)
    return secret
