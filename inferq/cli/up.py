"""`inferq up`: the whole pipeline here, until interrupted."""

import os
import shlex
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from inferq.cli.flags import State, with_settings
from inferq.cli.loglines import LogLines
from inferq.cli.running import for_eyes, prepare_model, run_with
from inferq.cli.terminal import run
from inferq.errors import OperatorError
from inferq.keyring import count_keys
from inferq.loading import load_settings
from inferq.local import LocalPipeline, Urls
from inferq.runfile import default_state_dir
from inferq.settings import Settings, exposed, unknown, with_values


class Ports(StrEnum):
    """Which ports the services take."""

    SETTINGS = "settings"
    AUTO = "auto"


@with_settings
def up(
    flags: dict[str, str],
    ports: Annotated[
        Ports, typer.Option(help="`auto` takes free ports instead of those of the settings")
    ] = Ports.SETTINGS,
    state: State = None,
) -> None:
    """Run the whole pipeline on this machine until interrupted.

    Without INFERQ_REDIS_URL it starts an embedded Valkey, with INFERQ_BROKER_URL=rabbitmq a private RabbitMQ.
    """
    settings, _ = load_settings(os.environ, flags)
    given = [field for field in flags if field.endswith("_port")]
    if ports is Ports.AUTO and given:
        raise OperatorError(f"--{given[0].replace('_', '-')} and --ports auto exclude each other: give one")
    settings = with_values(settings, log_format=for_eyes(settings))
    log = LogLines()
    for variable in unknown(os.environ):
        log.say(f"{variable} is no setting and changes nothing; `inferq config` lists those that are")
    for warning in exposed(flags):
        log.say(warning)
    # A file that cannot be used is known before anything runs.
    keys = count_keys(settings.api_keys)
    prepare_model(settings, log.say)
    state_dir = state or default_state_dir()
    raise typer.Exit(run(_up(settings, log, keys=keys, ports_auto=ports is Ports.AUTO, state_dir=state_dir)))


async def _up(settings: Settings, log: LogLines, *, keys: int, ports_auto: bool, state_dir: Path) -> int:
    pipeline = LocalPipeline(
        settings, state_dir=state_dir, ports_auto=ports_auto, say=log.say, on_line=log.write
    )

    async def serve() -> int:
        _print_urls(pipeline.urls, keys, state_dir)
        await pipeline.serve()
        return 0

    code = await run_with(pipeline, serve, say=log.say)
    log.say("stopped")
    return code or 0


def _print_urls(urls: Urls, keys: int, state_dir: Path) -> None:
    rows = [
        ("page", f"{urls.api}/"),
        ("API", urls.api),
        ("docs", f"{urls.api}/docs"),
        ("submit", f'POST {urls.api}/v1/infer with {{"text": "…"}}, or: {_submit(state_dir)}'),
        ("WebSocket", f"{urls.notifier}/ws/jobs/<job id>, or {urls.notifier}/ws for many"),
        ("events", f"{urls.api}/v1/jobs/<job id>/events"),
        *(("metrics", f"{url}  ({_named(name, urls.serving)})") for name, url in urls.metrics.items()),
    ]
    if urls.management is not None:
        credentials = f"user {urls.management_user}, password {urls.management_password}"
        rows.append(("RabbitMQ", f"{urls.management}  {credentials}"))
    rows.append(("state", str(state_dir)))
    if keys:
        rows.append(("keys", f"{keys} may call, with the header Authorization: Bearer <key>"))
    lines = "".join(f"  {name:<10} {value}\n" for name, value in rows)
    typer.echo(f"inferq is up; Ctrl-C stops it\n{lines}", nl=False)


def _named(service: str, serving: Mapping[str, str]) -> str:
    """Name a service, and a batcher's model where there are several."""
    model = serving.get(service) if len(set(serving.values())) > 1 else None
    return f"{service}, {model}" if model else service


def _submit(state_dir: Path) -> str:
    """Return a command that submits a text here, to be pasted in the same folder."""
    script = Path(sys.executable).with_name("inferq")
    if script.is_relative_to(Path.cwd()):
        script = script.relative_to(Path.cwd())
    command = [str(script)] if script.is_file() else [sys.executable, "-m", "inferq"]
    elsewhere = [] if state_dir == default_state_dir() else ["--state", str(state_dir)]
    return shlex.join([*command, "submit", *elsewhere, "I loved it"])
