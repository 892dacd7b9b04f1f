"""`inferq config`: every setting, its value and where that comes from."""

import os

import msgspec
import typer

from inferq.cli.flags import Json, with_settings
from inferq.cli.terminal import output, row, table
from inferq.loading import load_settings
from inferq.options import OPTIONS
from inferq.settings import to_environ, unknown


@with_settings
def config(flags: dict[str, str], json: Json = False) -> None:
    """Show every setting: value, origin, unit and what it does; passwords and keys are hidden."""
    settings, origins = load_settings(os.environ, flags)
    values = to_environ(settings)
    found = [
        {
            "variable": option.variable,
            "flag": option.flag,
            "value": option.shown(values[option.variable]),
            "origin": origins[option.field],
            "unit": option.unit,
            "help": option.help,
        }
        for option in OPTIONS
    ]
    if json:
        typer.echo(msgspec.json.encode(found).decode())
        return
    made = table("setting", "value", "origin", "unit", "what it does")
    made.columns[0].no_wrap = True
    for entry in found:
        row(
            made,
            entry["variable"],
            entry["value"] or "(empty)",
            entry["origin"],
            entry["unit"],
            entry["help"],
        )
    output().print(made)
    for variable in unknown(os.environ):
        typer.echo(f"inferq: {variable} is no setting and changes nothing", err=True)
