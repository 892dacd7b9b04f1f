"""What `inferq job` says of a webhook."""

from datetime import UTC, datetime

import pytest

from inferq.cli.job import hook_text
from inferq.jobs import WebhookState


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (
            WebhookState(state="delivered", attempts=1, last_status=204, last_error=None, next_at=None),
            "delivered after 1 try (204)",
        ),
        (
            WebhookState(
                state="pending", attempts=2, last_status=None, last_error="timeout",
                next_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
            ),
            "pending after 2 tries (timeout), next at 03:04:05 UTC",
        ),
        (
            WebhookState(state="failed", attempts=3, last_status=410, last_error="gone", next_at=None),
            "failed after 3 tries (410, gone)",
        ),
    ],
)  # fmt: skip  # a state and its words side by side
def test_a_webhook_in_words(state: WebhookState, text: str) -> None:
    """How far it is, what the last try came to, and when the next is."""
    assert hook_text(state) == text
