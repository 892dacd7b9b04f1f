"""Which API key a command sends: the one it is given, else one of the deployment that was started here.

Whoever may read the keys of a deployment, in the run file of `inferq up` or in the file that its setting names, may use
them; so a submit beside an `inferq up` just works. Such a key goes to that deployment alone, never to a given URL.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from inferq.apikeys import file_of, plain_key, usable
from inferq.errors import OperatorError

VARIABLE: Final = "INFERQ_API_KEY"
NO_KEY: Final = f"set {VARIABLE} to a key of this deployment, or name a file that holds one with --key-file"
# Ten thousand of the longest entries are half of this.
_MOST_FILE_BYTES: Final = 8 * 1024 * 1024
_MOST_KEY_FILE_BYTES: Final = 4096


def given_key(key_file: Path | None, environ: Mapping[str, str] | None = None) -> str | None:
    """Return the key that ``--key-file`` or the environment gives, or None.

    Raises:
        OperatorError: the file cannot be read, or what is given is no key.
    """
    if key_file is not None:
        return _checked(_content(key_file), f"--key-file {key_file}")
    environ = os.environ if environ is None else environ
    return _checked(environ[VARIABLE], VARIABLE) if environ.get(VARIABLE) else None


def own_key(api_keys: str) -> str | None:
    """Return a key of the deployment whose setting this is, where it is written out and may be read here."""
    name = file_of(api_keys)
    if name is None:
        return plain_key(api_keys)
    try:
        with Path(name).open("rb") as stream:
            return plain_key(stream.read(_MOST_FILE_BYTES).decode("utf-8-sig"), in_file=True)
    except (OSError, ValueError):
        return None


def _content(key_file: Path) -> str:
    try:
        with key_file.open("rb") as stream:
            return stream.read(_MOST_KEY_FILE_BYTES).decode(errors="replace").strip()
    except OSError as error:
        raise OperatorError(f"--key-file {key_file} cannot be read ({error.strerror})") from None


def _checked(key: str, source: str) -> str:
    if not usable(key):
        raise OperatorError(
            f"{source} holds no API key: give up to 255 visible ASCII characters, nothing else"
        )
    return key
