"""Writes the model card: what the model is, where it comes from, how good it is."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template

from scripts.builtin.sources import RATINGS_PACKAGE, WEIGHTS_PACKAGE
from scripts.builtin.training import Recipe

_TEMPLATE = Path(__file__).with_name("card.md")


@dataclass(frozen=True, kw_only=True)
class Score:
    """`correct` of `total` texts were labelled as people rated them."""

    correct: int
    total: int


def render(
    scores: Mapping[str, Score],
    *,
    recipe: Recipe,
    train_count: int,
    vocabulary_size: int,
    original_vocabulary_size: int,
) -> str:
    """The card in Markdown; `scores` maps a description of the texts to how the model did on them."""
    rows = [
        f"| {name} | {score.correct} of {score.total} | {100 * score.correct / score.total:.1f} % |"
        for name, score in scores.items()
    ]
    return Template(_TEMPLATE.read_text()).substitute(
        rows="\n".join(rows),
        weights=WEIGHTS_PACKAGE,
        ratings=RATINGS_PACKAGE,
        vocabulary=f"{vocabulary_size:,}",
        original_vocabulary=f"{original_vocabulary_size:,}",
        train=f"{train_count:,}",
        epochs=recipe.epochs,
        batch=recipe.batch_size,
        tokens=recipe.max_tokens,
        rate=f"{recipe.learning_rate:g}",
        warm_up=round(100 * recipe.warm_up),
        seed=recipe.seed,
    )
