"""The key that a finished result is kept and found under.

Two jobs have one key when the same model, in the same precision, with the same options, reads the same input: then
the answer of one is the answer of the other. What is hashed is one JSON array, so no two parts can run into each
other; it opens with a version, which is raised when the parts change or the kept value does. Tensors have names, types
and shapes in the array, and their bytes behind it, whose length follows from these.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from inferq.jobs import Job
from inferq.tensors.tensor import Tensor

VERSION: Final = 2
# Of its own: whatever is kept anew, messages wait in the shards that their inputs named.
DIGEST_VERSION: Final = 1

# Sorted keys at every depth: equal options have one spelling.
_encode = msgspec.json.Encoder(order="deterministic").encode


def cache_key(
    *, model_digest: str, precision: str, text: str, options: Mapping[str, Any] | None = None
) -> str:
    """Return the key as SHA-256 in hex; ``options`` holds JSON values alone."""
    parts = (VERSION, model_digest, precision, dict(options or {}), text)
    return hashlib.sha256(_encode(parts)).hexdigest()


def tensor_key(*, model_digest: str, precision: str, inputs: Sequence[Tensor]) -> str:
    """Return the key of tensors, in the order of the graph's inputs, as SHA-256 in hex."""
    return _of_tensors((VERSION, model_digest, precision, {}), inputs)


def job_key(job: Job, *, model_digest: str, precision: str) -> str:
    """Return the key of what a job gives to a model."""
    if job.inputs:
        return tensor_key(model_digest=model_digest, precision=precision, inputs=job.inputs)
    options = {"text_pair": job.text_pair} if job.text_pair else None
    return cache_key(model_digest=model_digest, precision=precision, text=job.text, options=options)


def input_digest(text: str, text_pair: str = "") -> str:
    """Return the SHA-256 in hex of an input alone, whatever model reads it."""
    parts = (DIGEST_VERSION, text, text_pair) if text_pair else (DIGEST_VERSION, text)
    return hashlib.sha256(_encode(parts)).hexdigest()


def job_digest(job: Job) -> str:
    """Return the digest of what a job gives to whatever model."""
    return _of_tensors((DIGEST_VERSION,), job.inputs) if job.inputs else input_digest(job.text, job.text_pair)


def shard_of(digest: str, shards: int) -> int:
    """Return the shard of an input by its digest, so that equal inputs meet."""
    return int(digest[:8], 16) % shards


def _of_tensors(about: tuple[Any, ...], inputs: Sequence[Tensor]) -> str:
    heads = [(one.name, one.datatype, one.shape) for one in inputs]
    total = hashlib.sha256(_encode((*about, heads)))
    total.update(b"\n")
    for one in inputs:
        total.update(one.data)
    return total.hexdigest()
