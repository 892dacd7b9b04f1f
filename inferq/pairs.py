"""Whether a tokenizer takes two texts, by what its file says of it. Pure.

Any tokenizer can put two texts one behind the other. One that was made for pairs sets something between them, so it
adds more tokens of its own to two texts than to one.
"""

from typing import Any


def takes_pairs(post_processor: Any) -> bool:
    """Say so of the ``post_processor`` of a ``tokenizer.json``."""
    match post_processor:
        case {"type": "BertProcessing" | "RobertaProcessing"}:
            return True
        case {"type": "TemplateProcessing", "single": [*single], "pair": [*pair]}:
            return _special(pair) > _special(single)
        case {"type": "Sequence", "processors": [*processors]}:
            return any(map(takes_pairs, processors))
    return False


def _special(template: list[Any]) -> int:
    return sum(isinstance(one, dict) and "SpecialToken" in one for one in template)
