"""The secret of a deployment that has been given none: made once, and kept in its state folder."""

import secrets
from pathlib import Path
from typing import Final

from inferq.errors import OperatorError
from inferq.secretfile import write_secret
from inferq.webhooks.signing import NEW_BYTES, check_secret, spelled

FILE_NAME: Final = "webhook.secret"


def kept_secret(state_dir: Path) -> str:
    """Return the secret that is kept in a folder, making it where there is none; raises OperatorError."""
    file = state_dir / FILE_NAME
    try:
        secret = check_secret(file.read_text().strip())
    except FileNotFoundError:
        secret = ""
    except (OSError, ValueError) as error:
        raise OperatorError(
            f"{file} cannot be used ({type(error).__name__}): correct it, or remove it for a new secret of webhooks"
        ) from error
    if not secret:
        secret = spelled(secrets.token_bytes(NEW_BYTES))
        write_secret(file, secret + "\n")
    return secret
