"""A simulated model, inside the engine process: it sleeps as long as a batch would take, and fails as it is told to."""

import os
import time
import zlib
from pathlib import Path
from typing import Final

import numpy as np

from batcher.layout import Layout
from batcher.tokenizer import FAULT_IDS, SIMULATED_MAX_LENGTH
from batcher.wire import Ids, Logits
from inferq.head import SINGLE_LABEL
from inferq.modelspec import ModelSpec

CRASH_EXIT_CODE: Final = 66
HANG_S: Final = 3600.0


class SimulatedModel:
    """No model: a batch of b takes tau0 + alpha * b milliseconds; the answer follows from the ids alone."""

    labels: tuple[str, ...] = ("NEGATIVE", "POSITIVE")
    head = SINGLE_LABEL
    width = 2
    device = "cpu"
    fallback_reason: str | None = None
    max_length = SIMULATED_MAX_LENGTH

    def __init__(self, spec: ModelSpec) -> None:
        self._spec = spec
        self.providers: list[str] = ["simulated"]
        self.inputs = ["input_ids", "attention_mask"]

    def run(
        self, input_ids: Ids, attention_mask: Ids, token_types: Ids | None = None, *, wide: bool = False
    ) -> Logits:
        """Return made-up logits after the time that the batch takes, or carry out the faults it orders."""
        if self._spec.faults:
            ids = set(input_ids[attention_mask == 1].tolist())
            orders = {word for word, order in FAULT_IDS.items() if order in ids}
            self._carry_out(orders, "a text of this batch orders a failure", rows=len(input_ids))
            self._carry_out(ordered(self._spec), "the file of faults orders a failure", rows=len(input_ids))
        time.sleep((self._spec.tau0_ms + self._spec.alpha_ms * len(input_ids)) / 1000)
        logits = np.empty((len(input_ids), 2), dtype=np.float32)
        for index, (ids, mask) in enumerate(zip(input_ids, attention_mask, strict=True)):
            code = zlib.crc32(ids[mask == 1].astype("<i4").tobytes())
            margin = 0.5 + (code >> 1) % 1000 / 250
            logits[index] = (-margin, margin) if code & 1 else (margin, -margin)
        return logits

    def arrange(self, layout: Layout) -> None:
        """Take any layout: a run that sleeps needs nothing."""

    def _carry_out(self, orders: set[str], why: str, *, rows: int) -> None:
        if "crash" in orders:
            os._exit(CRASH_EXIT_CODE)
        if "hang" in orders:
            time.sleep(HANG_S)
        if "raise" in orders:
            raise RuntimeError(why)
        if "memory" in orders and rows > 1:
            raise MemoryError("out of memory: a text of this batch has room alone")


def ordered(spec: ModelSpec) -> set[str]:
    """Return what the file of faults orders while it is there: what a text may, or ``load``, which is refused."""
    if spec.faults_file is None:
        return set()
    try:
        return set(Path(spec.faults_file).read_text(encoding="utf-8").split())
    except FileNotFoundError:
        return set()
