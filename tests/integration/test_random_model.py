"""The random DistilBERT that is written without torch: it loads, is trimmed, and answers as a classifier does."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from batcher.model import OnnxModel
from inferq.errors import OperatorError
from inferq.modelfolder import check
from inferq.onnxfile import fused_attention
from inferq.randommodel import FULL, Size, write_random
from inferq.trim import trimmed

SMALL = Size(layers=2, width=64, heads=4, hidden=128, positions=32)
IDS = np.array([[101, 7, 9, 102], [101, 8, 102, 0], [101, 102, 0, 0]])
MASK = (IDS > 0).astype(np.int64)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random(tmp_path_factory.mktemp("models") / "random-small", seed=3, size=SMALL)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_it_answers_finitely_and_as_alone(folder: Path, precision: str) -> None:
    """Padding of rows changes nothing beyond rounding, and texts have different answers."""
    model = OnnxModel(check(folder, name="random-small"), device="cpu", precision=precision)
    assert (model.labels, model.max_length) == (("NEGATIVE", "POSITIVE"), 32)
    together = model.run(IDS, MASK)
    assert np.isfinite(together).all()
    assert len(np.unique(together[:, 0])) == 3
    alone = [
        model.run(IDS[at : at + 1, :length], MASK[at : at + 1, :length])[0]
        for at, length in enumerate((4, 3, 2))
    ]
    assert np.allclose(together, alone, rtol=1e-2 if precision == "fp16" else 1e-4, atol=1e-5)


def test_both_precisions_are_the_same_model(folder: Path) -> None:
    """fp16 differs by its rounding alone."""
    known = check(folder, name="random-small")
    answers = [OnnxModel(known, device="cpu", precision=one).run(IDS, MASK) for one in ("fp32", "fp16")]
    assert np.allclose(answers[0], answers[1], rtol=1e-2, atol=1e-3)


def test_the_graph_is_sound_fused_and_trimmed(folder: Path) -> None:
    """What checks ONNX files has nothing against it, and what the batcher leaves out of a BERT it finds here."""
    for name in ("model.onnx", "model.fp16.onnx"):
        onnx.checker.check_model(onnx.load(folder / name))
        assert fused_attention(folder / name) == SMALL.layers
        assert trimmed(folder / name) is not None


def test_equal_seeds_make_equal_models(folder: Path, tmp_path: Path) -> None:
    """And other seeds others."""
    same = write_random(tmp_path / "random-a", seed=3, size=SMALL, precisions=("fp32",))
    other = write_random(tmp_path / "random-b", seed=4, size=SMALL, precisions=("fp32",))
    assert (same / "model.onnx").read_bytes() == (folder / "model.onnx").read_bytes()
    assert (other / "model.onnx").read_bytes() != (folder / "model.onnx").read_bytes()
    assert not (same / "model.fp16.onnx").exists()


def test_the_full_size_is_that_of_distilbert_base(folder: Path) -> None:
    """The dimensions are in the config, and a folder that hides that it is random is refused."""
    config = json.loads((folder / "config.json").read_text())
    assert config["n_layers"] == SMALL.layers
    assert (FULL.layers, FULL.width, FULL.heads, FULL.hidden, FULL.words) == (6, 768, 12, 3072, 30_522)
    with pytest.raises(OperatorError, match="must contain 'random'"):
        write_random(folder.parent / "distilbert")
