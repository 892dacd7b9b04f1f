"""What the tests of the doctor share."""

from urllib.parse import urlsplit

from inferq.cli.examining.finding import Finding
from inferq.settings import Settings, load

PASSWORD = "not-the-password"


def settings_of(redis_url: str, broker_url: str = "", **more: str) -> Settings:
    """Return settings as a process has them."""
    environ = {"INFERQ_REDIS_URL": redis_url, "INFERQ_BROKER_URL": broker_url or redis_url}
    return load(environ | {f"INFERQ_{name.upper()}": value for name, value in more.items()})[0]


def only(findings: list[Finding], name: str) -> Finding:
    """Return the one finding of a name."""
    (found,) = [finding for finding in findings if finding.name == name]
    return found


def with_login(url: str, login: str) -> str:
    """Return a URL with another user and password."""
    host = urlsplit(url).netloc.rpartition("@")[2]
    return urlsplit(url)._replace(netloc=f"{login}@{host}").geturl()
