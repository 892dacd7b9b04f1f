"""What is the same behind each peer: the tokenizer, one ONNX Runtime session, padded batches, the answer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from loadgen.peers.servers.order import Order


class Classifier:
    """One session that runs batches on all threads."""

    def __init__(self, order: Order) -> None:
        folder = Path(order.folder)
        self._order = order
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(order.max_length)
        self._tokenizer.no_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = order.threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", str(int(order.spin)))
        path = str(folder / "model.onnx")
        self._session: Any = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self._inputs = {entry.name: entry.type for entry in self._session.get_inputs()}

    def __call__(self, texts: Sequence[str]) -> list[dict[str, Any]]:
        """Return the answer to each text of a batch, in order."""
        rows = [self._tokenizer.encode(text).ids for text in texts]
        lengths = np.array([len(row) for row in rows])
        ids = np.full((len(rows), int(lengths.max())), self._order.pad_id, dtype=np.int64)
        for index, row in enumerate(rows):
            ids[index, : len(row)] = row
        mask = (np.arange(ids.shape[1]) < lengths[:, None]).astype(np.int64)
        given = {"input_ids": ids, "attention_mask": mask}
        feed = {
            name: given.get(name, np.zeros_like(ids)).astype(
                np.int32 if kind == "tensor(int32)" else np.int64, copy=False
            )
            for name, kind in self._inputs.items()
        }
        return [self._answer(row) for row in self._session.run(None, feed)[0]]

    def _answer(self, logits: Any) -> dict[str, Any]:
        powers = np.exp(np.asarray(logits, dtype=np.float64) - logits.max())
        shares = [round(float(share), 6) for share in powers / powers.sum()]
        best = int(np.argmax(powers))
        labels = self._order.labels
        return {
            "label": labels[best],
            "score": shares[best],
            "scores": dict(zip(labels, shares, strict=True)),
        }
