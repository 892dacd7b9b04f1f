"""Whether a deployment takes a webhook."""

import pytest

from inferq.settings import load
from inferq.webhooks.policy import Policy

SECRET = "whsec_" + "A" * 32


def test_without_a_secret_none_is_taken() -> None:
    """The refusal says what the operator has to set."""
    with pytest.raises(ValueError, match=r"^is not taken here: .* INFERQ_WEBHOOK_SECRET$"):
        Policy.of(load({})[0]).check("https://a.example/")


def test_with_a_secret_what_the_hosts_allow_is_taken() -> None:
    """Public ones by https, listed ones by http as well."""
    settings, _ = load({"INFERQ_WEBHOOK_SECRET": SECRET, "INFERQ_WEBHOOK_HOSTS": "127.0.0.1"})
    Policy.of(settings).check("https://a.example/")
    Policy.of(settings).check("http://127.0.0.1:1/")
    with pytest.raises(ValueError, match=r"^must begin with https"):
        Policy.of(settings).check("http://a.example/")
