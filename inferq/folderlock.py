"""A data folder belongs to one starter at a time.

The lock is the kernel's (``flock``): it goes with the process that holds it, however that ends, and its
descriptor is inherited by nobody, so a server that outlives its starter does not keep the folder locked.
"""

import fcntl
import os
from pathlib import Path

from inferq.errors import OperatorError


class FolderLock:
    """An exclusive hold on a data folder, which is made if need be; ``other`` says how to have another one."""

    def __init__(self, folder: Path, *, other: str = "choose another folder") -> None:
        self._folder, self._other = folder, other
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        """Whether this object holds the folder."""
        return self._descriptor is not None

    def acquire(self) -> None:
        """Take the folder, or raise OperatorError when another holds it or it cannot be written."""
        if self._descriptor is not None:
            return
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise OperatorError(
                f"cannot use the folder {self._folder}: {error.strerror}; choose one that can be written to"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        except BlockingIOError:
            holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise OperatorError(
                f"the folder {self._folder} is in use by process {holder}; stop it or {self._other}"
            ) from None
        except OSError as error:
            os.close(descriptor)
            raise OperatorError(
                f"cannot lock the folder {self._folder}: {error.strerror}; choose one on a local disk"
            ) from error
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the folder back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
