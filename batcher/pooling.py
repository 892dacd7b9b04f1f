"""From one vector for each token to one for each text. Pure.

What stands at padding counts for nothing, whatever a graph puts there: it is replaced and not multiplied by zero, which
would let a NaN through. So a text has the same vector beside a long one as alone, as far as the graph itself gives it.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from batcher.wire import Ids, Logits
from inferq.head import Pooling

# As sentence-transformers does it: a vector of zeros stays one.
_LEAST_NORM: Final = np.float32(1e-12)


def pooled(hidden: Logits, mask: Ids, pooling: Pooling) -> Logits:
    """Return texts x dimensions of texts x tokens x dimensions; ``mask`` is 1 at each token of a text, 0 at padding."""
    if pooling is Pooling.CLS:
        first: Logits = hidden[:, 0]
        return first
    column = (mask == 1)[:, :, None]
    found: npt.NDArray[np.float32]
    if pooling is Pooling.MAX:
        found = np.where(column, hidden, np.float32(-np.inf)).max(axis=1)
    else:
        found = np.where(column, hidden, np.float32(0)).sum(axis=1) / column.sum(axis=1, dtype=np.float32)
    return found


def normalized(vectors: Logits) -> Logits:
    """Return the vectors with a length of 1."""
    lengths = np.sqrt(np.square(vectors).sum(axis=1, keepdims=True))
    found: Logits = vectors / np.maximum(lengths, _LEAST_NORM)
    return found
