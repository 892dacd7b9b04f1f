"""A Redis that does not know the user or password of the URL: a mistake, which no trying again mends."""

import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from inferq.ports import free_port
from inferq.redis import check_login

WRONG = "bob:wrong-password"


def with_login(url: str, login: str) -> str:
    """Return a URL with a user and a password."""
    return urlsplit(url)._replace(netloc=f"{login}@{urlsplit(url).netloc}").geturl()


@pytest.mark.parametrize("service", ["ingress", "notifier", "batcher"])
def test_a_wrong_login_stops_the_start_with_the_cure(service: str, valkey_url: str) -> None:
    """One line, which names the setting and shows no password."""
    ended = subprocess.run(
        [sys.executable, "-m", service, "--model", "simulated:1,1"],
        env={"INFERQ_REDIS_URL": with_login(valkey_url, WRONG), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"{service}: INFERQ_REDIS_URL: ")
    assert line.endswith(": correct them")
    assert "wrong-password" not in ended.stdout + ended.stderr


async def test_a_redis_that_is_away_may_come_later(valkey_url: str) -> None:
    """It stops no start, and neither does one that takes the login."""
    await check_login(f"redis://{WRONG}@127.0.0.1:{free_port()}/0")
    await check_login(valkey_url)
