"""How many tokens texts have for a model."""

from collections.abc import Sequence

from inferq.modelfolder import resolve
from inferq.modelspec import parse
from loadgen.bareloops import tokenised


def tokens_of(model: str, texts: Sequence[str]) -> list[int]:
    """Return the tokens of each text; a simulated model's are its words. Raises `OperatorError` for no such model."""
    folder = resolve(parse(model))
    if folder is None:
        return [len(text.split()) for text in texts]
    return [len(row) for row in tokenised(folder, texts)[0]]
