"""Judges the finished folder as a user would run it: its own files, through ONNX Runtime, without torch."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

_BATCH = 32


def correct(folder: Path, texts: Sequence[str], labels: Sequence[int]) -> int:
    """How many of `texts` the model in `folder` labels as in `labels`."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(512)
    tokenizer.enable_padding()
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    right = 0
    for start in range(0, len(texts), _BATCH):
        encodings = tokenizer.encode_batch(list(texts[start : start + _BATCH]))
        feed = {
            "input_ids": np.array([encoding.ids for encoding in encodings], dtype=np.int64),
            "attention_mask": np.array([encoding.attention_mask for encoding in encodings], dtype=np.int64),
        }
        (logits,) = session.run(["logits"], feed)
        right += int((logits.argmax(axis=1) == np.array(labels[start : start + _BATCH])).sum())
    return right
