"""Secrets and signatures, checked with the published library."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from inferq.webhooks.signing import check_secret, secret_of, signed, spelled

MASTER = spelled(bytes(range(32)))
BODY = '{"type":"job.done","text":"ä"}'.encode()


def _signed(name: str = "alice", body: bytes = BODY) -> dict[str, str]:
    return signed(secret_of(MASTER, name), webhook_id="msg_1_3", at_ms=time.time() * 1000, body=body)


def test_a_signature_is_one_by_the_published_library() -> None:
    """With the secret of the job's own key."""
    assert Webhook(secret_of(MASTER, "alice")).verify(BODY, _signed()) == json.loads(BODY)


@pytest.mark.parametrize("change", ["body", "webhook-id", "webhook-timestamp", "name"])
def test_what_was_changed_does_not_pass(change: str) -> None:
    """Body, id, time or the key that it is signed with."""
    headers: dict[str, Any] = _signed("bob" if change == "name" else "alice")
    body = BODY + b" " if change == "body" else BODY
    if change in headers:
        headers[change] = str(int(headers[change]) + 1) if change.endswith("timestamp") else "msg_1_4"
    with pytest.raises(WebhookVerificationError):
        Webhook(secret_of(MASTER, "alice")).verify(body, headers)


def test_the_time_is_in_whole_seconds() -> None:
    """As the standard has it, and rounded down."""
    headers = signed(MASTER, webhook_id="x", at_ms=1_769_860_800_999.9, body=b"{}")
    assert headers["webhook-timestamp"] == "1769860800"
    assert headers["webhook-id"] == "x"
    assert headers["webhook-signature"].startswith("v1,")


@given(st.text(max_size=20), st.text(max_size=20))
def test_each_name_has_a_secret_of_its_own(one: str, other: str) -> None:
    """The same each time, and never the deployment's."""
    assert (secret_of(MASTER, one) == secret_of(MASTER, other)) is (one == other)
    assert secret_of(MASTER, one) != MASTER
    assert check_secret(secret_of(MASTER, one)) == secret_of(MASTER, one)


@pytest.mark.parametrize("length", [24, 32, 64])
def test_a_secret_is_taken_as_it_stands(length: int) -> None:
    """24 to 64 bytes."""
    assert check_secret(spelled(b"x" * length)) == spelled(b"x" * length)


def test_no_secret_is_allowed() -> None:
    """Then there are no webhooks."""
    assert check_secret("") == ""


@pytest.mark.parametrize(
    "text", [spelled(b"x" * 23), spelled(b"x" * 65), "whsec_AAAA", "whsec_ä", "whsec_====", "A" * 32]
)
def test_what_is_no_secret_is_refused(text: str) -> None:
    """The text is not in the complaint."""
    with pytest.raises(ValueError, match=r"^empty, or whsec_ and base64 of 24 to 64 bytes") as caught:
        check_secret(text)
    assert text not in str(caught.value)
