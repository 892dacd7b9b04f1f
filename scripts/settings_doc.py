"""Write docs/settings.md from the table of settings (`make docs`)."""

from pathlib import Path

from inferq.options import OPTIONS, Option

PAGE = Path(__file__).resolve().parent.parent / "docs" / "settings.md"

_HEAD = """# Settings

<!-- Made from inferq/options.py by `make docs`; edit there. -->

One environment variable each, and the same name as a flag of every process, of `inferq up` and of `inferq demo`:
`INFERQ_MAX_BATCH_SIZE=32` or `--max-batch-size 32`. A flag wins over the variable. A bad value stops the start with one
line that names the variable, the value and what is allowed. `inferq config` prints the settings in force, and where
each comes from.

| variable | default | unit | meaning |
|---|---|---|---|
"""


def render() -> str:
    """Return the page."""
    return _HEAD + "".join(_row(option) for option in OPTIONS)


def _row(option: Option) -> str:
    default = f"`{option.default}`" if option.default else "empty"
    text = option.help.replace("|", "\\|").replace("<", "&lt;")
    return f"| `{option.variable}` | {default} | {option.unit} | {text} |\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
