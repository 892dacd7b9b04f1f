"""Which deployment a command speaks to: the one that the environment names, else the `inferq up` that runs here."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from inferq import runfile
from inferq.addresses import host_port
from inferq.cli.credentials import given_key, own_key
from inferq.errors import OperatorError
from inferq.loading import load_settings
from inferq.probe import reachable
from inferq.settings import Settings, require_servers

URL_VARIABLE: Final = "INFERQ_URL"


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where the HTTP API is, and the API key to send, if any."""

    url: str
    key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """Settings, and the `inferq up` that they come from, if any."""

    settings: Settings
    running: runfile.RunFile | None

    @property
    def api_url(self) -> str:
        """Where the HTTP API is."""
        return f"http://{host_port(reachable(self.settings.host), self.settings.ingress_port)}"

    def endpoint(self, key: str | None) -> Endpoint:
        """Where the HTTP API is, with the key that is given, else one of the deployment's own."""
        return Endpoint(url=self.api_url, key=key or own_key(self.settings.api_keys))


def find(state_dir: Path | None, environ: Mapping[str, str] | None = None) -> Deployment:
    """Return the deployment that the environment names, else the one that runs on this machine, else the defaults.

    The one that runs here is also meant where the environment names its very Redis.

    Raises:
        OperatorError: a setting in the environment is not allowed.
    """
    environ = os.environ if environ is None else environ
    running = runfile.read(state_dir or runfile.default_state_dir())
    named = environ.get("INFERQ_REDIS_URL")
    if running is None or (named and named != running.environ.get("INFERQ_REDIS_URL")):
        settings, _ = load_settings(environ)
        return Deployment(settings=settings, running=None)
    settings, _ = load_settings({**environ, **running.environ})
    return Deployment(settings=settings, running=running)


def find_servers(state_dir: Path | None) -> Settings:
    """Return settings with the URLs of Redis and broker.

    Raises:
        OperatorError: neither the environment nor a running `inferq up` names them.
    """
    deployment = find(state_dir)
    if deployment.running is None and not deployment.settings.redis_url:
        folder = state_dir or runfile.default_state_dir()
        raise OperatorError(
            f"no `inferq up` runs with the state folder {folder} and INFERQ_REDIS_URL is not set:"
            " start one, name its folder with --state, or name the servers"
        )
    return require_servers(deployment.settings)


def endpoint(
    url: str | None,
    state_dir: Path | None,
    key_file: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Endpoint:
    """Return where the HTTP API is: as given, else what the environment sets, else that of `inferq up`.

    The environment may name its URL, as for the client, or its port on this machine.

    Raises:
        OperatorError: what is given is no URL or no key, or a setting is not allowed.
    """
    environ = os.environ if environ is None else environ
    key = given_key(key_file, environ)
    if url is not None:
        return Endpoint(url=checked_url(url), key=key)
    if environ.get(URL_VARIABLE):
        return Endpoint(url=checked_url(environ[URL_VARIABLE], URL_VARIABLE), key=key)
    if "INFERQ_INGRESS_PORT" in environ:
        settings, _ = load_settings(environ)
        return Deployment(settings=settings, running=None).endpoint(key)
    return find(state_dir, environ).endpoint(key)


def checked_url(url: str, source: str = "--url") -> str:
    """Return the URL of an API, without a slash at its end; raises OperatorError when it is none."""
    try:
        parts = urlsplit(url)
        known = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known:
        raise OperatorError(f"{source} {url!r} is not allowed: it must be a URL like http://host:port")
    return url.rstrip("/")
