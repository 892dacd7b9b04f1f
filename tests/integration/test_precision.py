"""int8 and fp16 files: made from the fp32 one without torch, loaded, and compared with it."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from batcher import check as check_module
from batcher import drift as drift_module
from batcher.drift import keep, kept, measure
from batcher.model import OnnxModel
from batcher.tokenizer import FolderTokenizer
from batcher.wire import pack_run
from inferq import precision as precision_module
from inferq.errors import OperatorError
from inferq.export import export
from inferq.modelfolder import MODEL_FILES, builtin_path, check, digest, precision_file
from inferq.modelspec import parse
from inferq.onnxfile import external_files, fused_attention, operators
from inferq.precision import check_fused, convert, note
from inferq.snippets import snippets
from tests.tinymodel import make_tiny_model

TEXTS = ["I loved it", "a complete waste of money", "the plot is thin but the acting is superb"]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built-in model with an int8 and an fp16 file, as two exports in a row make it."""
    place = tmp_path_factory.mktemp("models")
    export("builtin", place / "int8", precision="int8")
    export(str(place / "int8"), place / "both", precision="fp16")
    return place / "both"


def test_an_export_adds_a_precision_to_a_copy_of_the_folder(both: Path) -> None:
    """All that the source had is there, the new files beside it, and nothing else."""
    source = {path.name for path in builtin_path().iterdir()}
    assert {path.name for path in both.iterdir()} == source | {"model.int8.onnx", "model.fp16.onnx"}
    assert (both / "model.onnx").read_bytes() == (builtin_path() / "model.onnx").read_bytes()
    assert sorted(path.name for path in both.parent.iterdir()) == ["both", "int8"]
    assert digest(both) != digest(both.parent / "int8") != digest(builtin_path())


@pytest.mark.parametrize(("precision", "operator"), [("int8", "MatMulInteger"), ("fp16", "MatMul")])
def test_each_precision_keeps_the_fused_attention(both: Path, precision: str, operator: str) -> None:
    """Each layer's attention is still one operator, and the matrix products are of the right kind."""
    file = precision_file(check(both, name="both"), precision)
    assert fused_attention(file) == 3
    assert operators(file)[operator] >= 9


@pytest.mark.parametrize("precision", ["int8", "fp16"])
def test_the_file_of_the_precision_is_what_runs(both: Path, precision: str) -> None:
    """Its logits are near fp32's and not the same."""
    folder = check(both, name="both")
    tokenizer = FolderTokenizer(folder)
    ids, mask = pack_run(1, [tokenizer.encode(text).ids for text in TEXTS], pad_id=tokenizer.pad_id).arrays()
    expected, got = (
        OnnxModel(folder, device="cpu", precision=name).run(ids, mask) for name in ("fp32", precision)
    )
    assert 0 < np.abs(expected - got).max() < 0.5
    assert (expected.argmax(axis=1) == got.argmax(axis=1)).all()


def test_int8_drifts_and_an_answer_depends_on_its_batch_mates(both: Path) -> None:
    """Labels agree for nearly all sentences; the same text scores otherwise in company."""
    folder = check(both, name="both")
    steps: list[tuple[int, int]] = []
    found = measure(
        parse(str(both)),
        folder,
        FolderTokenizer(folder),
        precision="int8",
        device="cpu",
        texts=[*snippets()[:48], "\ud800"],
        progress=lambda _, done, total: steps.append((done, total)),
    )
    assert (found.sentences, found.together, found.device) == (48, 48, "cpu")
    assert found.same_label >= 45
    assert 0 < found.mean_difference < found.largest_difference < 0.3
    assert found.depends_on_batch_mates
    assert found.together_largest_difference > 0
    assert steps[-1] == (192, 192)
    assert len(found.lines()) == 2
    assert "depends on its batch mates" in found.lines()[1]


def test_fp16_answers_alike_in_any_batch(both: Path) -> None:
    """Its scores move by its rounding alone."""
    folder = check(both, name="both")
    tokenizer = FolderTokenizer(folder)
    found = measure(parse(str(both)), folder, tokenizer, precision="fp16", device="cpu", texts=TEXTS)
    assert found.same_label == 3
    assert found.largest_difference < 0.01
    assert found.together_other_label == 0


def test_a_kept_drift_holds_for_the_very_files(both: Path, tmp_path: Path) -> None:
    """It is read back until one of the two files changes; what another program wrote there is ignored."""
    copy = tmp_path / "copy"
    shutil.copytree(both, copy)
    folder = check(copy, name="copy")
    assert kept(folder, "int8") is None
    tokenizer = FolderTokenizer(folder)
    drifts = [
        measure(parse(str(copy)), folder, tokenizer, precision=name, device="cpu", texts=TEXTS)
        for name in ("int8", "fp16")
    ]
    for drift in drifts:
        keep(folder, drift)
    assert [kept(folder, name) for name in ("int8", "fp16")] == drifts
    shutil.copyfile(copy / "model.fp16.onnx", copy / "model.int8.onnx")
    assert kept(folder, "int8") is None
    assert kept(folder, "fp16") == drifts[1]
    (copy / drift_module.DRIFT_FILE).write_text("[]")
    assert kept(folder, "fp16") is None


def test_check_shows_file_fusion_and_drift(
    both: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a kept drift it measures; kept, it is the same again without measuring."""
    copy = tmp_path / "copy"
    shutil.copytree(both, copy)
    monkeypatch.setattr(drift_module, "SENTENCES", 16)
    argv = ["--precision", "int8", str(copy)]
    assert check_module.main([*argv, "--keep-drift"]) == 0
    shown = capsys.readouterr().out
    assert "precision   int8 from model.int8.onnx, attention of 3 layers fused" in shown
    assert "of 16 sentences get the label that fp32 gives" in shown
    monkeypatch.setattr(check_module, "measure", None)
    assert check_module.main([*argv, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["file"], found["fused_attention"], found["precision_note"]) == ("model.int8.onnx", 3, None)
    assert found["drift"]["sentences"] == 16


def test_a_precision_that_does_not_suit_its_device_says_so() -> None:
    """fp16 on a CPU and int8 on a GPU gain nothing; the others need no remark."""
    assert "fp32 or int8" in (note("fp16", "cpu") or "")
    assert "fp16 or fp32" in (note("int8", "cuda") or "")
    assert [note("fp32", "cpu"), note("int8", "cpu"), note("fp16", "cuda")] == [None, None, None]


def test_a_missing_file_names_the_cure(tmp_path: Path) -> None:
    """The line is a command that can be copied: `builtin` for the model in the package, else the folder."""
    with pytest.raises(OperatorError, match=r"inferq model export builtin <target> --precision int8"):
        precision_file(check(builtin_path(), name="builtin"), "int8")
    folder = make_tiny_model(tmp_path / "tiny")
    with pytest.raises(OperatorError, match=rf"inferq model export {folder} <target> --precision fp16"):
        precision_file(check(folder, name="tiny"), "fp16")


def test_a_model_folder_is_not_exported_as_it_is(tmp_path: Path) -> None:
    """There is nothing to do for fp32, and the line says what there is."""
    with pytest.raises(OperatorError, match="say --precision int8 or fp16"):
        export("builtin", tmp_path / "made")
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "mine").touch()
    with pytest.raises(OperatorError, match="exists already"):
        export("builtin", tmp_path / "made", precision="int8")


def test_a_graph_that_int8_cannot_help_is_refused(tmp_path: Path) -> None:
    """A bag of words has no matrix product; no folder is left."""
    folder = make_tiny_model(tmp_path / "tiny")
    with pytest.raises(OperatorError, match="use fp32"):
        export(str(folder), tmp_path / "made", precision="int8")
    assert [path.name for path in tmp_path.iterdir()] == ["tiny"]


def test_without_onnx_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only making needs it; one line says what to install."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(OperatorError, match="pip install onnx onnxruntime"):
        convert(tmp_path, {}, "int8")


def test_attention_that_did_not_fuse_is_refused() -> None:
    """For architectures that the fusions know; of others nothing can be said."""
    with pytest.raises(OperatorError, match="only 5 of 6 attention layers fused"):
        check_fused(5, {"model_type": "distilbert", "n_layers": 6})
    check_fused(0, {"model_type": "other", "num_hidden_layers": 6})
    check_fused(0, {"model_type": "distilbert"})


def test_weights_of_a_large_model_go_beside_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both precisions then are two files each, which the folder's check knows and the model loads."""
    monkeypatch.setattr(precision_module, "EXTERNAL_FROM_BYTES", 1)
    copy = tmp_path / "copy"
    shutil.copytree(builtin_path(), copy)
    config = json.loads((copy / "config.json").read_bytes())
    for name in ("int8", "fp16"):
        assert convert(copy, config, name) == 3
        assert external_files(copy / MODEL_FILES[name]) == {f"{MODEL_FILES[name]}.data"}
        OnnxModel(check(copy, name="copy"), device="cpu", precision=name)
    assert not [path for path in copy.iterdir() if path.name.startswith(".")]
    (copy / "model.int8.onnx.data").unlink()
    with pytest.raises(OperatorError, match="needs its weights file"):
        check(copy, name="copy")
