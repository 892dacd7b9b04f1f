"""The key that a finished result is kept and found under.

Two jobs have one key when the same model, in the same precision, with the same options, reads the same input: then
the answer of one is the answer of the other. What is hashed is one JSON array, so no two parts can run into each
other; it opens with a version, which is raised when the parts change or the kept value does.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

VERSION: Final = 1

# Sorted keys at every depth: equal options have one spelling.
_encode = msgspec.json.Encoder(order="deterministic").encode


def cache_key(
    *, model_digest: str, precision: str, text: str, options: Mapping[str, Any] | None = None
) -> str:
    """Return the key as SHA-256 in hex; ``options`` holds JSON values alone."""
    parts = (VERSION, model_digest, precision, dict(options or {}), text)
    return hashlib.sha256(_encode(parts)).hexdigest()


def input_digest(text: str) -> str:
    """Return the SHA-256 in hex of an input alone, whatever model reads it."""
    return hashlib.sha256(_encode((VERSION, text))).hexdigest()


def shard_of(digest: str, shards: int) -> int:
    """Return the shard of an input by its digest, so that equal inputs meet."""
    return int(digest[:8], 16) % shards
