"""Files that hold a secret: their owner alone may read them, and they are there whole or not at all."""

import os
from pathlib import Path


def write_secret(file: Path, text: str) -> None:
    """Write such a file in place of the one that may be there."""
    draft = file.with_name(f"{file.name}.new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    draft.replace(file)
