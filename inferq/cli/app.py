"""The commands, gathered. An operator's mistake is one line on standard error and exit code 2."""

import sys
from importlib import metadata
from typing import Annotated

import typer

from inferq.cli import dead, model, webhooks
from inferq.cli.config import config
from inferq.cli.demo import demo
from inferq.cli.doctor import doctor
from inferq.cli.job import job
from inferq.cli.stats import stats
from inferq.cli.submit import submit
from inferq.cli.up import up
from inferq.cli.watch import watch
from inferq.errors import InferqError, OperatorError


def _flowing(doc: str) -> str:
    """Return a docstring with each paragraph on one line, for the terminal to break."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in doc.split("\n\n"))


app = typer.Typer(
    name="inferq",
    no_args_is_help=True,
    add_completion=False,
    # A traceback with the values of variables would show passwords.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (up, demo, submit, watch, job, stats, doctor, config):
    app.command(help=_flowing(command.__doc__ or ""))(command)
app.add_typer(dead.app, name="dead")
app.add_typer(model.app, name="model")
app.add_typer(webhooks.app, name="webhooks")


def _version(wanted: bool) -> None:
    if wanted:
        try:
            typer.echo(f"inferq {metadata.version('inferq')}")
        except metadata.PackageNotFoundError:
            typer.echo("inferq, not installed")
        raise typer.Exit


@app.callback()
def inferq(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Async inference with dynamic batching and push delivery."""


def main() -> None:
    """Run the command line."""
    try:
        app()
    except InferqError as error:
        sys.stderr.write(f"inferq: {error}\n")
        sys.exit(2 if isinstance(error, OperatorError) else 1)
