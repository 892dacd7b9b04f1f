"""Folders of text models of all kinds: what they are taken for, what is refused, and what is left out of a graph."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from batcher.model import OnnxModel
from batcher.rowdrift import row_drift
from batcher.texttask import check_size
from batcher.tokenizer import FolderTokenizer, InputRefused
from batcher.wire import pack_run
from inferq.errors import OperatorError
from inferq.head import Head, Kind, Pooling
from inferq.modelfolder import check
from inferq.modelspec import parse
from inferq.precision import convert
from tests.encodermodels import MAX_LENGTH, WIDTH, direct, ids_of, make_encoder

MODULES = ("Transformer", "Pooling", "Normalize")


def rows_of(folder: Path, *texts: str) -> Any:
    """Return what a folder's model makes of texts in one batch."""
    found = check(folder, name="m")
    tokenizer = FolderTokenizer(found)
    rows = [tokenizer.encode(text).ids for text in texts]
    return OnnxModel(found, device="cpu").run(*pack_run(1, rows, pad_id=tokenizer.pad_id).arrays())


def test_a_plain_encoder_is_refused_until_its_pooling_is_said(tmp_path: Path) -> None:
    """One line names the file that cures it; with that it answers."""
    folder = make_encoder(tmp_path / "encoder", first_too=True)
    with pytest.raises(
        OperatorError, match=r'inferq\.json how its tokens are pooled, as \{"task":"embedding"'
    ):
        check(folder, name="m")
    (folder / "inferq.json").write_text('{"task": "embedding"}')
    with pytest.raises(OperatorError, match='say which "pooling"'):
        check(folder, name="m")
    (folder / "inferq.json").write_text('{"task": "embedding", "pooling": "median"}')
    with pytest.raises(OperatorError, match=r"inferq\.json is not understood .*pooling.*: write it as"):
        check(folder, name="m")
    (folder / "inferq.json").write_text('{"task": "embedding", "pooling": "mean"}')
    assert check(folder, name="m").head == Head(kind=Kind.EMBEDDING, pooling=Pooling.MEAN)
    wanted = direct(folder, *ids_of("a b c")).mean(axis=0)
    np.testing.assert_allclose(rows_of(folder, "a b c")[0], wanted, rtol=1e-5, atol=1e-6)


def test_a_classifier_that_is_called_an_embedding_is_refused(tmp_path: Path) -> None:
    """Its logits have no axis of tokens to pool."""
    folder = make_encoder(tmp_path / "m", labels=("a", "b"), choice={"task": "embedding", "pooling": "mean"})
    with pytest.raises(OperatorError, match=r"does not run \(output 'logits' has shape .* to pool"):
        OnnxModel(check(folder, name="m"), device="cpu")


@pytest.mark.parametrize("pooling", Pooling)
def test_nothing_is_left_out_where_tokens_are_pooled(
    tmp_path: Path, pooling: Pooling, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The graph is not even looked at: it is run whole. A classifier's is trimmed as ever."""
    looked: list[Path] = []
    monkeypatch.setattr("batcher.session.trimmed", looked.append)
    pooled = make_encoder(
        tmp_path / "pooled", choice={"task": "embedding", "pooling": pooling}, first_too=True
    )
    assert rows_of(pooled, "a", "a b c d").shape == (2, WIDTH)
    assert not looked
    labelled = make_encoder(tmp_path / "labelled", labels=("a", "b"))
    rows_of(labelled, "a")
    assert [path.parent for path in looked] == [labelled]


def test_a_padded_text_has_the_embedding_that_it_has_alone(tmp_path: Path) -> None:
    """Within a hundred-thousandth, however much padding stands behind it."""
    folder = make_encoder(tmp_path / "m", modules=MODULES)
    together = rows_of(folder, "a", " ".join("bcdefghijklmnopqrstu"), "x y")
    for row, text in ((0, "a"), (2, "x y")):
        np.testing.assert_allclose(together[row], rows_of(folder, text)[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), np.ones(3), rtol=1e-5)


@pytest.mark.parametrize(
    ("config", "kind"), [({}, Kind.MULTI), ({"problem_type": "regression"}, Kind.VALUES)]
)
def test_one_unnamed_label_is_seen_when_the_model_runs(
    tmp_path: Path, config: dict[str, Any], kind: Kind
) -> None:
    """A softmax over one would always be 1."""
    folder = make_encoder(tmp_path / "m", labels=("only",), **config)
    given = json.loads((folder / "config.json").read_text())
    del given["id2label"]
    (folder / "config.json").write_text(json.dumps(given))
    model = OnnxModel(check(folder, name="m"), device="cpu")
    assert (model.head.kind, model.labels, model.width) == (kind, ("LABEL_0",), 1)


def test_the_tokenizer_cuts_the_longer_text_first(tmp_path: Path) -> None:
    """And says so; types are those of the pair; without room for what stands around two texts there is none."""
    folder = make_encoder(tmp_path / "m", labels=("a", "b"))
    tokenizer = FolderTokenizer(check(folder, name="m"))
    assert tokenizer.pairs
    ids, types = ids_of("a b", "c")
    assert tokenizer.encode("a b", "c") == (ids, False, types)
    assert tokenizer.encode("a b") == (ids_of("a b")[0], False, ())
    long = " ".join("abcdefghijklmnopqrstuvwxyz")
    for pair, wanted in (
        (("a b", long), ("a b", long[: 2 * 19 - 1])),
        ((long, "a b"), (long[: 2 * 19 - 1], "a b")),
    ):
        ids, types = ids_of(*wanted)
        assert len(ids) == MAX_LENGTH
        assert tokenizer.encode(*pair) == (ids, True, types)
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 2}')
    with pytest.raises(InputRefused, match="2 tokens, too few for a pair"):
        FolderTokenizer(check(folder, name="m")).encode("a", "b")
    single = make_encoder(tmp_path / "single", labels=("a", "b"), pairs=False)
    assert check(single, name="m").pairs is False
    with pytest.raises(InputRefused, match="text_pair is not for this model"):
        FolderTokenizer(check(single, name="m")).encode("a", "b")


def test_texts_are_read_as_in_training(tmp_path: Path) -> None:
    """Cut to the length that sentence-transformers gives, in lower case where it says so."""
    folder = make_encoder(tmp_path / "m", modules=MODULES)
    capitals = FolderTokenizer(check(folder, name="m"))
    assert capitals.encode("A b").ids == [2, 1, ids_of("b")[0][1], 3]
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 4, "do_lower_case": true}')
    tokenizer = FolderTokenizer(check(folder, name="m"))
    assert tokenizer.encode("A b") == (ids_of("a b")[0], False, ())
    assert tokenizer.encode("A b C") == (ids_of("a b")[0], True, ())
    for content in ("[]", "{"):
        (folder / "sentence_bert_config.json").write_text(content)
        with pytest.raises(OperatorError, match=r"sentence_bert_config\.json is not"):
            check(folder, name="m")


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("modules.json", "{", r"modules\.json is not readable JSON"),
        ("modules.json", "{}", "its graph answers with something for each token"),
        ("modules.json", "[5]", "no list of modules"),
        ("1_Pooling/config.json", "", "is not readable JSON"),
        ("1_Pooling/config.json", '{"pooling_mode_lasttoken": true}', "its pooling is lasttoken"),
        ("tokenizer.json", "{", r"tokenizer\.json is not readable JSON"),
    ],
)
def test_a_file_that_says_nothing_is_one_line(tmp_path: Path, file: str, content: str, says: str) -> None:
    """With the folder, and what to do."""
    folder = make_encoder(tmp_path / "m", modules=MODULES)
    (folder / file).write_text(content)
    with pytest.raises(OperatorError, match=says) as caught:
        check(folder, name="m")
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize("kind", [Kind.EMBEDDING, Kind.MULTI, Kind.VALUES])
def test_another_precision_is_compared_by_what_counts(tmp_path: Path, kind: Kind) -> None:
    """The cosine of embeddings, the scores of labels, the values of a regression; fp32 with itself is the same."""
    makers: dict[Kind, dict[str, Any]] = {
        Kind.EMBEDDING: {"modules": MODULES},
        Kind.MULTI: {"labels": ("x", "y"), "problem_type": "multi_label_classification"},
        Kind.VALUES: {"labels": ("stars",), "problem_type": "regression"},
    }
    source = make_encoder(tmp_path / "m", **makers[kind])
    folder = check(source, name="m")
    tokenizer = FolderTokenizer(folder)
    texts = ["a b", "c", " ", "d e f"]
    same, other = (1.0, "cosine") if kind is Kind.EMBEDDING else (0.0, "s")
    spec = parse(str(source))
    found = row_drift(spec, folder, tokenizer, precision="fp32", device="cpu", texts=texts)
    assert (found.sentences, found.usual, found.worst) == (4, same, same)
    assert found.what.endswith(other)
    convert(source, json.loads((source / "config.json").read_text()), "int8")
    found = row_drift(spec, folder, tokenizer, precision="int8", device="cpu", texts=texts)
    assert found.usual == pytest.approx(same, abs=0.1)
    assert found.worst != same
    assert f"of 4 sentences: {found.usual:.4f} on average, {found.worst:.4f} at " in found.text


def test_answers_that_no_record_should_hold_are_refused_at_the_start() -> None:
    """The bound is that of outputs: an embedding as it lies in memory, labels as they stand in a record."""
    embedding = Head(kind=Kind.EMBEDDING)
    check_size(embedding, 256, (), max_output_bytes=1024)
    with pytest.raises(OperatorError, match="257 numbers of 4 bytes: INFERQ_MAX_OUTPUT_BYTES=1024"):
        check_size(embedding, 257, (), max_output_bytes=1024)
    labels = [f"a label of some length, number {number}" for number in range(90)]
    check_size(Head(), 30, labels[:30], max_output_bytes=1024)
    with pytest.raises(OperatorError, match=r"90 labels may have [0-9]+ bytes: INFERQ_MAX_OUTPUT_BYTES=1024"):
        check_size(Head(kind=Kind.MULTI), 90, labels, max_output_bytes=1024)


def test_check_says_what_a_model_answers(tmp_path: Path) -> None:
    """Kind, size, and whether it takes pairs, beside a sample of answers."""
    makers: dict[str, dict[str, Any]] = {
        "embedding": {"modules": MODULES},
        "multi": {"labels": ("x", "y"), "problem_type": "multi_label_classification"},
        "stars": {"labels": ("stars",), "problem_type": "regression", "pairs": False},
    }
    for name, given in makers.items():
        make_encoder(tmp_path / name, **given)

    def checked(name: str, *options: str) -> str:
        command = [sys.executable, "-m", "batcher.check", str(tmp_path / name), "a b", *options]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    embedding = checked("embedding")
    assert "answers     embedding, mean pooling, normalised\ndimensions  8\n" in embedding
    assert "pairs       taken\n" in embedding
    found = json.loads(checked("multi", "--json"))
    assert (found["task"], found["dimensions"], found["labels"]) == ("text", None, ["x", "y"])
    assert set(found["answers"][0]) == {"text", "labels", "scores", "truncated"}
    stars = checked("stars")
    assert "pairs       not taken" in stars
    assert "answers     a value for each label\nlabels      stars\n" in stars


ODD: list[Any] = [None, True, -1, 10**30, 1.5, float("nan"), float("-inf"), "x", [], [{}], {}, {"a": 1}]


@pytest.mark.parametrize(
    ("file", "names"),
    [
        (
            "config.json",
            (
                "problem_type", "id2label", "model_type", "pad_token_id", "max_position_embeddings", "n_positions",
                "sentence_transformers", "sbert_ce_default_activation_function",
            ),
        ),
        ("1_Pooling/config.json", ("pooling_mode", "pooling_mode_mean_tokens", "pooling_mode_cls_token")),
        ("sentence_bert_config.json", ("max_seq_length", "do_lower_case")),
        ("tokenizer_config.json", ("model_max_length",)),
        ("inferq.json", ("task", "pooling", "normalize", "threshold")),
        ("modules.json", ()),
        ("tokenizer.json", ("post_processor",)),
    ],
)  # fmt: skip  # a table
def test_whatever_a_file_holds_is_read_or_refused(tmp_path: Path, file: str, names: tuple[str, ...]) -> None:
    """A value that nobody would expect, in a file from elsewhere, is taken or told in one line."""
    folder = make_encoder(tmp_path / "m", modules=MODULES, model_type="roberta")
    place = folder / file
    fields: Any = json.loads(place.read_text()) if place.is_file() else {"task": "classification"}
    shapes: list[Any] = [{**fields, name: odd} for name in names for odd in ODD] + ODD
    if file == "modules.json":
        shapes += [[{**fields[0], key: odd}] for key in ("type", "path") for odd in ODD]
    told = []
    for shape in shapes:
        place.write_text(json.dumps(shape))
        try:
            check(folder, name="m")
        except OperatorError as error:
            told.append(str(error))
    assert told
    assert not [line for line in told if "\n" in line]
