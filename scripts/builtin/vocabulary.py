"""Cuts a WordPiece vocabulary to size without making any character unreadable.

Kept, in this order: special tokens; every piece of one character (`x` and `##x`); the pieces that the training texts
use at least twice; the rest in the order of the original vocabulary, which lists common English first. A word whose
piece was dropped is spelt with shorter pieces, in the worst case with single characters, so what the original could
read stays readable.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tokenizers import Tokenizer

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The cut tokenizer, and for each of its ids the row of the original embeddings."""

    tokenizer_json: str
    original_ids: tuple[int, ...]


def cut(tokenizer_json: str, texts: Iterable[str], *, size: int) -> Vocabulary:
    """Keep `size` pieces; raises ValueError when a character would become unreadable."""
    original = json.loads(tokenizer_json)
    original["truncation"] = None
    original["padding"] = None
    vocabulary: dict[str, int] = original["model"]["vocab"]
    tokenizer = Tokenizer.from_str(json.dumps(original))
    counts: Counter[int] = Counter()
    for encoding in tokenizer.encode_batch(list(texts), add_special_tokens=False):
        counts.update(encoding.ids)

    def rank(piece: str) -> tuple[int, int, int]:
        if piece in SPECIAL:
            return 0, 0, SPECIAL.index(piece)
        if len(piece.removeprefix("##")) == 1:
            return 1, 0, vocabulary[piece]
        if piece.startswith("[unused"):
            return 3, 0, vocabulary[piece]
        count = counts[vocabulary[piece]]
        return 2, -count if count > 1 else 0, vocabulary[piece]

    kept = sorted(vocabulary, key=rank)[:size]
    # Original order keeps neighbours (digits, letters) together, which compresses and reads better.
    kept = [*SPECIAL, *sorted(kept[len(SPECIAL) :], key=vocabulary.__getitem__)]
    new_ids = {piece: index for index, piece in enumerate(kept)}
    cut_json = json.loads(json.dumps(original))
    cut_json["model"]["vocab"] = new_ids
    for token in cut_json["added_tokens"]:
        token["id"] = new_ids[token["content"]]
    cut_json["added_tokens"].sort(key=lambda token: token["id"])
    for special in cut_json["post_processor"].get("special_tokens", {}).values():
        special["ids"] = [new_ids[piece] for piece in special["tokens"]]
    for end in ("sep", "cls"):
        if end in cut_json["post_processor"]:
            piece, _ = cut_json["post_processor"][end]
            cut_json["post_processor"][end] = [piece, new_ids[piece]]
    result = json.dumps(cut_json, ensure_ascii=False, separators=(",", ":")) + "\n"
    _check_characters(tokenizer, Tokenizer.from_str(result))
    return Vocabulary(tokenizer_json=result, original_ids=tuple(vocabulary[piece] for piece in kept))


def _check_characters(original: Tokenizer, smaller: Tokenizer) -> None:
    """Every character of the basic plane must be readable alone and inside a word wherever it was."""
    characters = [chr(code) for code in range(0x20, 0x10000) if not 0xD800 <= code < 0xE000]
    for probe in (characters, [f"a{character}" for character in characters], [f"{c}a" for c in characters]):
        before = original.encode_batch(probe, add_special_tokens=False)
        after = smaller.encode_batch(probe, add_special_tokens=False)
        lost = [
            text
            for text, old, new in zip(probe, before, after, strict=True)
            if "[UNK]" in new.tokens and "[UNK]" not in old.tokens
        ]
        if lost:
            raise ValueError(f"the cut vocabulary can no longer read {lost[:10]}")
