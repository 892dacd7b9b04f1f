"""Makes the built-in sentiment model: `python scripts/train_builtin.py`, with scripts/train_requirements.txt installed.

Two pinned packages come through pip; the rest is computed here, seeded, on two threads. It writes the model folder
and the texts that judge it, `tests/data/held_out.tsv`, and refuses a model that is too large or not good enough.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from tokenizers import Tokenizer

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
# Read when torch is imported: a waiting thread sleeps instead of spinning, which would starve its own partner.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from scripts.builtin import card, corpus, evaluation, graph, sources, training, vocabulary  # noqa: E402 - needs the lines above

RECIPE = training.Recipe(seed=1, epochs=2)
SPLIT_SEED = 7
VOCABULARY_SIZE = 15_000
HELD_OUT_COUNTS = {"movie": 1000, "amazon": 300, "tweets": 300}
TITLES = {
    "movie": "movie snippets, held out",
    "amazon": "Amazon review snippets, held out",
    "tweets": "tweets, held out",
}
SENTENCES = ROOT / "tests" / "data" / "sentences.tsv"

_CONFIG_KEYS = (
    "activation",
    "dim",
    "hidden_dim",
    "id2label",
    "label2id",
    "max_position_embeddings",
    "model_type",
    "n_heads",
    "n_layers",
    "pad_token_id",
    "vocab_size",
)

MAX_FOLDER_BYTES = 12_000_000
MIN_MOVIE_ACCURACY = 0.83
MAX_WRONG_SENTENCES = 1


def main() -> int:
    parser = argparse.ArgumentParser(description="Makes the built-in sentiment model.")
    parser.add_argument("--out", type=Path, default=ROOT / "batcher" / "models" / "builtin")
    parser.add_argument("--held-out", type=Path, default=ROOT / "tests" / "data" / "held_out.tsv")
    parser.add_argument(
        "--downloads", type=Path, help="keeps the downloaded packages here (default: nowhere)"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        raw = sources.fetch(options.downloads or Path(scratch) / "downloads")
        staged = Path(scratch) / "model"
        staged.mkdir()
        held_out = make(raw, staged)
        options.out.mkdir(parents=True, exist_ok=True)
        for file in sorted(staged.iterdir()):
            shutil.copyfile(file, options.out / file.name)
        options.held_out.write_text(held_out)
    print(f"wrote {options.out} and {options.held_out}")
    return 0


def make(raw: sources.Sources, folder: Path) -> str:
    """Fill `folder` and return the held-out table; raises SystemExit when the model misses a goal."""
    sentences = [line.split("\t") for line in SENTENCES.read_text().splitlines()]
    data = corpus.split(
        {name: corpus.parse(getattr(raw, name)) for name in HELD_OUT_COUNTS},
        held_out_counts=HELD_OUT_COUNTS,
        also_judged=[text for _, text in sentences],
        seed=SPLIT_SEED,
    )
    words = vocabulary.cut(raw.tokenizer_json, [snippet.text for snippet in data.train], size=VOCABULARY_SIZE)
    tokenizer = Tokenizer.from_str(words.tokenizer_json)
    model = training.fine_tune(raw.weights, words.original_ids, tokenizer, data.train, RECIPE)

    graph.export(model, folder / "model.onnx")
    (folder / "tokenizer.json").write_text(words.tokenizer_json)
    _write_json(folder / "tokenizer_config.json", _tokenizer_config())
    _write_json(folder / "config.json", _config(model.config.to_dict()))
    shutil.copyfile(ROOT / "LICENSE", folder / "LICENSE")
    (folder / "LICENSE.vaderSentiment").write_text(raw.ratings_licence)

    judged = {
        TITLES[name]: ([snippet.text for snippet in group], [snippet.label for snippet in group])
        for name, group in data.held_out.items()
    }
    judged["everyday sentences, `tests/data/sentences.tsv`"] = (
        [text for _, text in sentences],
        [int(label == "POSITIVE") for label, _ in sentences],
    )
    scores = {
        title: card.Score(correct=evaluation.correct(folder, texts, labels), total=len(texts))
        for title, (texts, labels) in judged.items()
    }
    (folder / "README.md").write_text(
        card.render(
            scores,
            recipe=RECIPE,
            train_count=len(data.train),
            vocabulary_size=VOCABULARY_SIZE,
            original_vocabulary_size=len(json.loads(raw.tokenizer_json)["model"]["vocab"]),
        )
    )
    for title, score in scores.items():
        print(f"{title}: {score.correct} of {score.total}")
    _demand(scores, folder)
    return "".join(
        f"{name}\t{'POSITIVE' if snippet.label else 'NEGATIVE'}\t{snippet.text}\n"
        for name, group in data.held_out.items()
        for snippet in group
    )


def _demand(scores: dict[str, card.Score], folder: Path) -> None:
    size = sum(file.stat().st_size for file in folder.iterdir())
    movie, *_, everyday = scores.values()
    if size > MAX_FOLDER_BYTES:
        raise SystemExit(f"the folder takes {size:,} bytes, more than {MAX_FOLDER_BYTES:,}")
    if movie.correct < MIN_MOVIE_ACCURACY * movie.total:
        raise SystemExit(f"only {movie.correct} of {movie.total} movie snippets are right")
    if everyday.total - everyday.correct > MAX_WRONG_SENTENCES:
        raise SystemExit(f"only {everyday.correct} of {everyday.total} everyday sentences are right")


def _tokenizer_config() -> dict[str, object]:
    # The class that takes tokenizer.json as it is, whatever the model type.
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 512,
        "model_input_names": ["input_ids", "attention_mask"],
        "padding_side": "right",
        "truncation_side": "right",
        "clean_up_tokenization_spaces": True,
        **{f"{piece[1:-1].lower()}_token": piece for piece in vocabulary.SPECIAL},
    }


def _config(full: dict[str, object]) -> dict[str, object]:
    return {
        "architectures": ["DistilBertForSequenceClassification"],
        "problem_type": "single_label_classification",
        **{key: full[key] for key in _CONFIG_KEYS},
    }


def _write_json(path: Path, value: dict[str, object]) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    sys.exit(main())
