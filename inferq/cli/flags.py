"""Every setting as a flag of a command, from the table of settings."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from inferq.commandline import help_of, is_switch, spelled
from inferq.options import OPTIONS, Option

PANEL = "Settings"

State = Annotated[
    Path | None,
    typer.Option(
        "--state", metavar="DIR", help="where `inferq up` keeps its data (default: ~/.local/state/inferq)"
    ),
]
Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="the HTTP API (default: INFERQ_URL, else INFERQ_INGRESS_PORT here, else the running `inferq up`)",
    ),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        metavar="FILE",
        help="holds the API key to send (default: INFERQ_API_KEY, else a key of the running `inferq up`)",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="print JSON instead of text")]


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command a flag for every setting; it takes them as ``flags``, by field, where they were given."""
    signature = inspect.signature(command)
    own = [parameter for name, parameter in signature.parameters.items() if name != "flags"]
    settings = [_parameter(option) for option in OPTIONS]

    def wrapper(**given: Any) -> None:
        flags = spelled({option.field: given.pop(option.field) for option in OPTIONS})
        command(flags=flags, **given)

    parameters = [*own, *settings]
    wrapper.__name__ = command.__name__
    wrapper.__doc__ = command.__doc__
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    # What Typer reads to make the flags.
    wrapper.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # functions may have one
    return wrapper


def _parameter(option: Option) -> inspect.Parameter:
    flag, text = option.flag, help_of(option)
    annotation: Any
    if is_switch(option):
        annotation = Annotated[
            bool | None,
            typer.Option(f"{flag}/--no-{flag[2:]}", help=text, rich_help_panel=PANEL, show_default=False),
        ]
    else:
        annotation = Annotated[
            str | None,
            typer.Option(
                flag, metavar=option.unit.upper(), help=text, rich_help_panel=PANEL, show_default=False
            ),
        ]
    return inspect.Parameter(
        option.field, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )
