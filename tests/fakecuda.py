"""A runtime that says that it runs on a GPU, and computes on the CPU; and a driver that says what it is told."""

from pathlib import Path
from typing import Any

import onnxruntime

from batcher.cuda import CPU, CUDA
from batcher.providers import Driver


class FakeDriver(Driver):
    """A device of so many bytes, and what the system's loader says against the provider."""

    def __init__(self, total: int | None = 16 << 30, complaint: str | None = None) -> None:
        self.total, self.said = total, complaint

    def total_bytes(self) -> int | None:
        """Return the size that was given."""
        return self.total

    def complaint(self, runtime: Any) -> str | None:
        """Return the words that were given."""
        return self.said


class FakeRuntime:
    """ONNX Runtime with a CUDA provider: it `starts`, is silently left out, or raises what ``fails`` says.

    ``asked`` are the providers of each session that was opened.
    """

    def __init__(self, *, starts: bool = True, fails: str | None = None, cuda: bool = True) -> None:
        self.starts, self.fails, self.cuda = starts, fails, cuda
        self.asked: list[list[Any]] = []
        self.__file__ = str(Path(onnxruntime.__file__))

    def __getattr__(self, name: str) -> Any:
        return getattr(onnxruntime, name)

    def get_available_providers(self) -> list[str]:
        """Return what it was built with."""
        return [CUDA, CPU] if self.cuda else [CPU]

    def preload_dlls(self) -> None:
        """Print, as the real one does when a library is missing."""
        print("Failed to load libcublasLt.so.13")  # noqa: T201  # what must not reach a command's output

    def InferenceSession(self, graph: Any, options: Any, *, providers: list[Any]) -> Any:
        """Open a session on the CPU that says where it runs."""
        self.asked.append(providers)
        wants_cuda = any(one[0] == CUDA for one in providers if isinstance(one, tuple))
        if wants_cuda and self.fails is not None:
            raise RuntimeError(self.fails)
        session = onnxruntime.InferenceSession(graph, options, providers=[CPU])
        return _OnGpu(session) if wants_cuda and self.starts else session


class _OnGpu:
    def __init__(self, session: Any) -> None:
        self._session = session
        self.options: list[Any] = []
        self.fails: str | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def get_providers(self) -> list[str]:
        return [CUDA, CPU]

    def run(self, outputs: Any, feed: Any, options: Any) -> Any:
        self.options.append(options)
        if self.fails is not None:
            raise RuntimeError(self.fails)
        # The options name an arena that only a GPU has.
        return self._session.run(outputs, feed, None)
