"""`inferq model export` with torch, and what it says without; run by `make test-export`, not by `make test`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from batcher.model import OnnxModel
from batcher.tokenizer import FolderTokenizer
from batcher.wire import pack_run
from inferq import export as export_module
from inferq import hub, onnxfile
from inferq.errors import OperatorError
from inferq.export import export, random_distilbert
from inferq.head import Head, Kind, Pooling
from inferq.modelfolder import check
from inferq.modelspec import parse
from tests.hubstandin import HubStandIn, files_of, serving
from tests.tinymodel import make_tiny_model

torch: Any = pytest.importorskip("torch", reason="the export extra is not installed")
transformers: Any = pytest.importorskip("transformers")

# another library's own warnings on import and tracing are not ours to mend
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(600)]

SHAPE = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


def _config(family: str) -> Any:
    common = {"vocab_size": 64, "id2label": {0: "NEGATIVE", 1: "POSITIVE"}, "max_position_embeddings": 40}
    if family == "distilbert":
        return transformers.DistilBertConfig(dim=48, n_layers=2, n_heads=4, hidden_dim=64, **common)
    return {"bert": transformers.BertConfig, "roberta": transformers.RobertaConfig}[family](**SHAPE, **common)


def _source(folder: Path, family: str) -> Any:
    """Write a small random classifier as Hugging Face folders are, and return its model."""
    make_tiny_model(folder)
    (folder / "model.onnx").unlink()
    torch.manual_seed(0)
    model = transformers.AutoModelForSequenceClassification.from_config(_config(family)).eval()
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize("family", ["distilbert", "bert", "roberta"])
def test_an_exported_folder_answers_as_torch_does(tmp_path: Path, family: str) -> None:
    """The attention of every layer fuses, and the folder serves what torch computes."""
    model = _source(tmp_path / "source", family)
    exported = export(str(tmp_path / "source"), tmp_path / "made")
    assert (exported.layers, exported.fused_attention) == (2, 2)
    assert "2 of 2 attention layers fused" in exported.summary()
    folder = check(tmp_path / "made", name="made")
    tokenizer = FolderTokenizer(folder)
    rows = [tokenizer.encode(text).ids for text in ("good film", "a bad plot, a bad film")]
    ids, mask = pack_run(1, rows, pad_id=tokenizer.pad_id).arrays()
    got = OnnxModel(folder, device="cpu", threads=1).run(ids, mask)
    with torch.no_grad():
        expected = model(input_ids=torch.tensor(ids), attention_mask=torch.tensor(mask)).logits.numpy()
    assert np.abs(got - expected).max() < 1e-4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made", "source"]


def test_a_model_without_a_trained_head_is_refused(tmp_path: Path) -> None:
    """A bare encoder would get a random head, so it is not exported."""
    _source(tmp_path / "source", "distilbert")
    transformers.DistilBertModel(_config("distilbert")).save_pretrained(tmp_path / "source")
    with pytest.raises(OperatorError, match="no trained classification head"):
        export(str(tmp_path / "source"), tmp_path / "made")


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    """A folder whose weights are a pickle is not loaded."""
    model = _source(tmp_path / "source", "distilbert")
    (tmp_path / "source" / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "source" / "pytorch_model.bin")
    with pytest.raises(OperatorError, match="cannot be loaded for export") as caught:
        export(str(tmp_path / "source"), tmp_path / "made")
    assert "\n" not in str(caught.value)


def test_a_models_own_code_is_never_run(tmp_path: Path) -> None:
    """A config that asks for code of the folder is refused, and the code stays unread."""
    _source(tmp_path / "source", "distilbert")
    config = json.loads((tmp_path / "source" / "config.json").read_text())
    config |= {"model_type": "evil", "auto_map": {"AutoConfig": "evil.Config"}}
    (tmp_path / "source" / "config.json").write_text(json.dumps(config))
    (tmp_path / "source" / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(OperatorError, match="cannot be loaded for export"):
        export(str(tmp_path / "source"), tmp_path / "made")
    assert not (tmp_path / "ran").exists()


def test_a_hub_repository_without_onnx_is_exported(tmp_path: Path) -> None:
    """Its safetensors are downloaded, checked and exported once; the cache then starts offline."""
    _source(tmp_path / "source", "distilbert")
    standin = HubStandIn(repo="owner/tiny", commit="a" * 40, files=files_of(tmp_path / "source"))
    with serving(standin):
        spec = parse(f"hub:owner/tiny@{standin.commit}")
        folder = hub.resolve(spec, cache_dir=tmp_path, endpoint=standin.endpoint)
        standin.asked.clear()
        assert hub.resolve(spec, cache_dir=tmp_path, endpoint=standin.endpoint) == folder
    assert standin.asked == []
    assert folder.labels == ("NEGATIVE", "POSITIVE")
    assert not (folder.path / "model.safetensors").exists()


def test_an_existing_target_is_left_alone(tmp_path: Path) -> None:
    """A folder that holds something is never written into."""
    _source(tmp_path / "source", "distilbert")
    with pytest.raises(OperatorError, match="exists already"):
        export(str(tmp_path / "source"), tmp_path / "source")


def test_attention_that_does_not_fuse_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph that came out slow is not kept."""
    _source(tmp_path / "source", "distilbert")
    monkeypatch.setattr(onnxfile, "ATTENTION", ())
    with pytest.raises(OperatorError, match="0 of 2 attention layers fused"):
        export(str(tmp_path / "source"), tmp_path / "made")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("precision", ["int8", "fp16"])
def test_a_precision_is_made_beside_fp32(tmp_path: Path, precision: str) -> None:
    """A Hugging Face folder gives both files at once, each with its attention fused."""
    _source(tmp_path / "source", "distilbert")
    exported = export(str(tmp_path / "source"), tmp_path / "made", precision=precision)
    assert (exported.precision, exported.layers, exported.fused_attention) == (precision, 2, 2)
    folder = check(tmp_path / "made", name="made")
    ids, mask = pack_run(1, [[2, 4, 7, 3], [2, 5, 3]]).arrays()
    expected, got = (
        OnnxModel(folder, device="cpu", precision=name).run(ids, mask) for name in ("fp32", precision)
    )
    assert np.abs(got - expected).max() < 0.05


def test_a_graph_that_another_tool_left_unfused_is_fused_on_the_way(tmp_path: Path) -> None:
    """The fp32 file stays as it was; int8 is made from a fused one."""
    model = _source(tmp_path / "source", "distilbert")
    model.config.return_dict = False
    ones = torch.ones(2, 7, dtype=torch.long)
    names = ["input_ids", "attention_mask"]
    torch.onnx.export(
        transformers.AutoModelForSequenceClassification.from_config(
            model.config, attn_implementation="eager"
        ).eval(),
        (),
        str(tmp_path / "source" / "model.onnx"),
        kwargs=dict.fromkeys(names, ones),
        input_names=names,
        output_names=["logits"],
        dynamic_axes={name: {0: "batch", 1: "length"} for name in names},
        opset_version=17,
        dynamo=False,
    )
    exported = export(str(tmp_path / "source"), tmp_path / "made", precision="int8")
    assert onnxfile.fused_attention(tmp_path / "made" / "model.onnx") == 0
    assert exported.fused_attention == 2
    assert not (tmp_path / "made" / "model.safetensors").exists()


def test_a_random_distilbert_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is full-size, and its folder's name and card say that it is random."""
    vocabulary = make_tiny_model(tmp_path / "vocabulary")
    monkeypatch.setattr(export_module, "vocabulary_source", lambda: vocabulary)
    with pytest.raises(OperatorError, match="must contain 'random'"):
        random_distilbert(tmp_path / "distilbert")
    exported = random_distilbert(tmp_path / "random-distilbert")
    assert (exported.layers, exported.fused_attention, exported.max_length) == (6, 6, 512)
    assert exported.size_bytes > 260e6
    assert "random weights" in (exported.path / "README.md").read_text()


@pytest.mark.parametrize("family", ["distilbert", "bert", "roberta"])
@pytest.mark.parametrize("said", ["modules", "pooling"])
def test_an_encoder_becomes_a_model_of_embeddings(tmp_path: Path, family: str, said: str) -> None:
    """By sentence-transformers' files, or by the operator's word; it gives what torch gives, pooled."""
    source = tmp_path / "source"
    _source(source, family)
    torch.manual_seed(1)
    encoder = transformers.AutoModel.from_config(_config(family)).eval()
    encoder.save_pretrained(source)
    options: dict[str, Any] = {"pooling": Pooling.MEAN, "normalize": True}
    if said == "modules":
        options = {}
        kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
        modules = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in kinds]
        (source / "modules.json").write_text(json.dumps(modules))
        (source / "1_Pooling").mkdir()
        (source / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    exported = export(str(source), tmp_path / "made", **options)
    assert (exported.layers, exported.fused_attention) == (2, 2)
    assert "embedding, mean pooling, normalised, up to" in exported.summary()
    folder = check(tmp_path / "made", name="made")
    assert folder.head == Head(kind=Kind.EMBEDDING, pooling=Pooling.MEAN, normalize=True)
    tokenizer = FolderTokenizer(folder)
    rows = [tokenizer.encode(text).ids for text in ("good film", "a bad plot, a bad film")]
    ids, mask = pack_run(1, rows, pad_id=tokenizer.pad_id).arrays()
    got = OnnxModel(folder, device="cpu", threads=1).run(ids, mask)
    with torch.no_grad():
        tokens = encoder(input_ids=torch.tensor(ids), attention_mask=torch.tensor(mask))[0].numpy()
    mean = (tokens * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
    assert np.abs(got - mean / np.linalg.norm(mean, axis=1, keepdims=True)).max() < 1e-4
