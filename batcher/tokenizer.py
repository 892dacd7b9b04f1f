"""Text to token ids, in the batcher's own process, as soon as a job arrives.

`transformers` loads the tokenizer of a model folder, since it knows how each family's files fit together; the
fast tokenizer's backend then does the work for each text. Nothing is padded here: padding belongs to a batch.
"""

import asyncio
import os
import re
import zlib
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

from inferq.errors import InferqError, OperatorError, first_line
from inferq.modelfolder import ModelFolder
from inferq.modelspec import ModelSpec

SIMULATED_MAX_LENGTH: Final = 512
# Token ids that order a fault from the engine, see `batcher.simulated`; ordinary words come after them
FAULT_IDS: Final[dict[str, int]] = {"raise": 1, "crash": 2, "hang": 3, "memory": 5}
_FIRST_WORD_ID: Final = 100
_WORD_IDS: Final = 30_000
_FAULT = re.compile(r"\[\[(raise|crash|hang|memory|refuse)\]\]")


class InputRefused(InferqError):
    """The model cannot take this input; ``reason`` says why, without the input's text."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Encoded(NamedTuple):
    """The token ids of a text or a pair, and whether some were cut off to fit the model.

    ``types`` says of each token which of the two texts it is of; it is empty where all are 0.
    """

    ids: list[int]
    truncated: bool
    types: Sequence[int] = ()


class TextTokenizer(Protocol):
    """Turns a text, or where it takes ``pairs`` two of them, into token ids."""

    max_length: int
    pad_id: int
    pairs: bool

    def encode(self, text: str, pair: str = "") -> Encoded:
        """Return the ids of a text, at most ``max_length``; raises `InputRefused`. No second text is an empty one.

        Of a pair the longer one is cut first.
        """
        ...


class FolderTokenizer:
    """The tokenizer of a model folder."""

    def __init__(self, folder: ModelFolder) -> None:
        tokenizer = _load(folder)
        self._lower = folder.lower
        self._backend = tokenizer.backend_tokenizer
        try:
            self.max_length = min(folder.max_length, int(tokenizer.model_max_length))
            self.pad_id = int(tokenizer.pad_token_id or 0)
            self._backend.no_padding()
            self._backend.enable_truncation(max_length=self.max_length, strategy="longest_first")
        except Exception as error:
            # What its files say of it is passed on as it stands there, whatever that is.
            raise _unfit(folder, error) from error
        # One that is made for pairs sets something between them.
        between = self._backend.num_special_tokens_to_add
        self.pairs = between(True) > between(False)

    def encode(self, text: str, pair: str = "") -> Encoded:
        """Return the ids of a text or a pair, at most ``max_length``; raises `InputRefused`."""
        if pair:
            _check_pair(takes=self.pairs)
        if self._lower:
            text, pair = text.lower(), pair.lower()
        try:
            encoding = self._backend.encode(text, pair) if pair else self._backend.encode(text)
        except (KeyboardInterrupt, SystemExit, asyncio.CancelledError):
            raise
        except BaseException as error:
            # The backend raises bare exceptions, and a panic of its own that is no Exception; either text may quote
            # the input.
            raise InputRefused(f"the tokenizer refused the text ({type(error).__name__})") from None
        if not encoding.ids:
            raise InputRefused("the text has no tokens")
        if not pair:
            return Encoded(encoding.ids, bool(encoding.overflowing))
        if len(encoding.ids) > self.max_length:
            # Where there is no room for what stands around two texts, nothing is cut.
            raise InputRefused(f"the model takes {self.max_length} tokens, too few for a pair")
        types = encoding.type_ids
        return Encoded(encoding.ids, bool(encoding.overflowing), types if any(types) else ())


class SimulatedTokenizer:
    """Words to stable ids; with ``faults``, ``[[raise]]`` and its like in a text order a failure."""

    max_length = SIMULATED_MAX_LENGTH
    pad_id = 0
    pairs = False

    def __init__(self, *, faults: bool) -> None:
        self._faults = faults

    def encode(self, text: str, pair: str = "") -> Encoded:
        """Return the ids of a text, at most ``max_length``; raises `InputRefused` when the text orders it."""
        if pair:
            _check_pair(takes=self.pairs)
        orders = _FAULT.findall(text) if self._faults else []
        if "refuse" in orders:
            raise InputRefused("the text orders a refusal")
        # Orders come first, so that truncation never loses one
        ids = [FAULT_IDS[order] for order in orders]
        # Encoded as a whole, which takes two thirds of the time of encoding word by word.
        words = text.encode(errors="replace").split()
        ids += [_FIRST_WORD_ID + zlib.crc32(word) % _WORD_IDS for word in words]
        if not ids:
            raise InputRefused("the text has no tokens")
        return Encoded(ids[: self.max_length], len(ids) > self.max_length)


def _check_pair(*, takes: bool) -> None:
    if not takes:
        raise InputRefused("text_pair is not for this model, whose tokenizer takes one text")


def open_tokenizer(spec: ModelSpec, folder: ModelFolder | None) -> TextTokenizer:
    """Return a model's tokenizer, a simulated one without a folder; `OperatorError` when it does not load."""
    return SimulatedTokenizer(faults=spec.faults) if folder is None else FolderTokenizer(folder)


def _load(folder: ModelFolder) -> Any:
    # Without torch, transformers says on import that it has no models; we want its tokenizers only
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    # Takes a second and 35 MB, which a process with a simulated model need not pay
    from transformers import AutoTokenizer

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(
            str(folder.path), use_fast=True, trust_remote_code=False, local_files_only=True
        )
    except Exception as error:
        # The library raises whatever its readers raise; all of it means that these files do not load
        raise _unfit(folder, error) from error
    if not tokenizer.is_fast:
        raise OperatorError(f"the tokenizer in {folder.path} has no tokenizer.json: export the model again")
    return tokenizer


def _unfit(folder: ModelFolder, error: Exception) -> OperatorError:
    return OperatorError(
        f"the tokenizer in {folder.path} does not load ({first_line(error).rstrip(':')}): copy the model's files again"
    )
