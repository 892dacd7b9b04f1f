"""What the `__main__` of each service does the same way: settings, logs, signals, exit codes."""

import asyncio
import gc
import os
import resource
import secrets
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog
import uvloop

from inferq.commandline import parse_flags
from inferq.errors import OperatorError, first_of
from inferq.loading import load_settings
from inferq.redis import check_login
from inferq.settings import Settings, exposed, require_servers, unknown
from inferq.telemetry import configure_logs

Service = Callable[[Settings, asyncio.Event], Awaitable[None]]


# More than the connections that a service takes.
MOST_FILES: Final = 65_536
# Objects made and not yet freed before the collector looks at them, and how much rarer it looks at older ones.
_RARELY: Final = (20_000, 20, 50)


def run(
    service: str,
    description: str,
    main: Service,
    argv: Sequence[str] | None = None,
    *,
    collect_rarely: bool = False,
) -> int:
    """Run a service until SIGTERM or SIGINT; return the exit code.

    An operator's mistake is one line on standard error and exit code 2. ``collect_rarely`` is for a service with many
    requests under way: at Python's own pace the collector looks through all of them again and again, for cycles that
    hardly ever come about. Measured with 256 of them, that is a quarter of what the ingress spends on a job.
    """
    try:
        flags = parse_flags(f"python -m {service}", description, sys.argv[1:] if argv is None else argv)
        settings, _ = load_settings(os.environ, flags)
        settings = require_servers(settings)
        configure_logs(service=service, level=settings.log_level, style=settings.log_format)
        for variable in unknown(os.environ):
            structlog.get_logger(__name__).warning("settings.unknown", variable=variable)
        for warning in exposed(flags):
            structlog.get_logger(__name__).warning("settings.exposed", detail=warning)
        _allow_files()
        if collect_rarely:
            gc.collect()
            gc.freeze()
            gc.set_threshold(*_RARELY)
        uvloop.run(_until_signal(main, settings))
    except OperatorError as error:
        return _refuse(service, error)
    except BaseExceptionGroup as group:
        mistakes = group.subgroup(OperatorError)
        if mistakes is None:
            raise
        return _refuse(service, first_of(mistakes))
    return 0


def _allow_files() -> None:
    """Raise the usual thousand files that a process may open to what the system allows it; each connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(MOST_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _until_signal(main: Service, settings: Settings) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    await check_login(settings.redis_url)
    await main(settings, stopping)


def _refuse(service: str, error: BaseException) -> int:
    sys.stderr.write(f"{service}: {error}\n")
    return 2


def process_id() -> str:
    """Make an id for this process that no other has, on any host, be its number given out again: host-number-hex."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"
