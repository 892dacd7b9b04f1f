"""Models as they lie in folders."""

import json
from pathlib import Path

import pytest

from inferq.catalog import Task
from inferq.errors import OperatorError
from inferq.head import Kind
from inferq.hubcache import HubCache, models_dir
from inferq.modelsroot import from_anywhere, model_names, read_catalog, served_spec
from inferq.settings import Settings, load
from tests.encodermodels import make_encoder
from tests.tensormodels import MODELS, write_all, write_model, write_strings
from tests.tinymodel import make_tiny_model


def settings(**flags: str) -> Settings:
    """Return settings with these flags."""
    return load({}, flags)[0]


def test_without_a_folder_of_models_there_is_the_one() -> None:
    """As if there were no such setting."""
    plain = settings(model="simulated:1,1")
    assert model_names(plain) == ["simulated"]
    found = read_catalog(plain)
    assert found.default == "simulated"
    assert [(card.task, card.signature) for card in found.models.values()] == [(Task.TEXT, None)]
    assert served_spec(plain) == "simulated:1,1"


def test_each_folder_is_a_model(tmp_path: Path) -> None:
    """Text models with their tokenizer, tensor models with their graph alone; what is no folder, or hidden, is none."""
    root = write_all(tmp_path / "models")
    make_tiny_model(root / "tiny")
    (root / ".git").mkdir()
    (root / "README.md").write_text("models")
    given = settings(models=str(root))
    assert model_names(given) == ["builtin", *sorted([*MODELS, "tiny"])]
    found = read_catalog(given)
    assert found.models["tiny"].task is found.models["builtin"].task is Task.TEXT
    assert {card.name for card in found.tensor_models} == set(MODELS)
    signature = found.models["conv"].signature
    assert signature is not None
    assert signature.inputs[0].shape == (None, 3, 224, 224)
    assert served_spec(settings(models=str(root), serves="conv")) == str(root / "conv")
    assert served_spec(settings(models=str(root), serves="builtin")) == "builtin"


def test_the_default_model_may_take_tensors(tmp_path: Path) -> None:
    """Its folder is read where it is; where it is not, as on an ingress elsewhere, it counts as a text model."""
    folder = write_model(tmp_path / "mlp", MODELS["mlp"][0]())
    found = read_catalog(settings(model=str(folder)))
    assert found.default_tensor is found.models["mlp"]
    assert found.models["mlp"].kind is None
    elsewhere = read_catalog(settings(model=str(tmp_path / "gone" / "mlp")))
    assert elsewhere.models["mlp"].task is Task.TEXT


def test_the_default_model_may_lie_among_the_others(tmp_path: Path) -> None:
    """It is one model still; another one by its name is refused."""
    root = write_all(tmp_path / "models")
    assert model_names(settings(model=str(root / "mlp"), models=str(root))) == [
        "mlp",
        *sorted({*MODELS} - {"mlp"}),
    ]
    write_model(root / "builtin", MODELS["mlp"][0]())
    with pytest.raises(OperatorError, match="holds the folder 'builtin', which is the name of the model"):
        model_names(settings(models=str(root)))


def test_models_that_are_refused(tmp_path: Path) -> None:
    """Each with the reason and the cure."""
    with pytest.raises(OperatorError, match="is no folder: name the one"):
        model_names(settings(models=str(tmp_path / "gone")))
    root = tmp_path / "models"
    (root / "empty").mkdir(parents=True)
    with pytest.raises(OperatorError, match=r"empty has no model\.onnx"):
        read_catalog(settings(models=str(root)))
    (root / "empty").rmdir()
    strings = write_strings(root / "strings")
    with pytest.raises(OperatorError, match="cannot be served: input 'words' is of texts"):
        read_catalog(settings(models=str(root)))
    (strings / "model.onnx").write_bytes(b"garbage")
    with pytest.raises(OperatorError, match="no readable ONNX file"):
        read_catalog(settings(models=str(root)))
    with pytest.raises(
        OperatorError, match="INFERQ_SERVES='mlp': there is no such model, only builtin, strings"
    ):
        served_spec(settings(models=str(root), serves="mlp"))


def test_a_link_to_no_model_is_named(tmp_path: Path) -> None:
    """A model that is left out without a word would be missed by its callers only."""
    root = write_all(tmp_path / "models")
    (root / "notes.txt").write_text("what lies here")
    (root / ".gone").symlink_to("nowhere")
    known = model_names(settings(models=str(root)))
    (root / "gone").symlink_to("nowhere")
    with pytest.raises(OperatorError, match="gone is a link that leads nowhere: mend it, or take it out"):
        model_names(settings(models=str(root)))
    (root / "gone").unlink()
    assert model_names(settings(models=str(root))) == known


def test_a_folder_of_models_that_cannot_be_looked_at(tmp_path: Path) -> None:
    """The system's reason is told, and the cure."""
    with pytest.raises(OperatorError, match=r"cannot be read \(File name too long\): let the user"):
        model_names(settings(models=str(tmp_path / ("x" * 300))))


def test_a_text_model_without_its_tokenizer_is_no_tensor_model(tmp_path: Path) -> None:
    """It was forgotten; without a config the graph may well be meant to take token ids."""
    tiny = make_tiny_model(tmp_path / "models" / "tiny")
    (tiny / "tokenizer.json").unlink()
    given = settings(models=str(tmp_path / "models"))
    with pytest.raises(OperatorError, match="has no tokenizer"):
        read_catalog(given)
    (tiny / "config.json").unlink()
    assert read_catalog(given).models["tiny"].task is Task.TENSOR
    (tiny / "config.json").write_text(json.dumps({}))
    write = (tiny / "model.onnx").write_bytes
    write(MODELS["mlp"][0]())
    assert read_catalog(given).models["tiny"].task is Task.TENSOR


def test_weights_outside_the_folder_are_refused(tmp_path: Path) -> None:
    """A tensor model's too."""
    tiny = make_tiny_model(tmp_path / "models" / "tiny", external="../secret.bin")
    (tiny / "tokenizer.json").unlink()
    (tiny / "config.json").unlink()
    with pytest.raises(OperatorError, match="outside its folder"):
        read_catalog(settings(models=str(tmp_path / "models")))


def test_a_command_finds_the_folders_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that are relative to where the pipeline was started are not kept so; what is no folder stays as it is."""
    write_all(tmp_path / "models")
    monkeypatch.chdir(tmp_path)
    kept = from_anywhere(settings(model="models/mlp", models="models"))
    monkeypatch.chdir("/")
    assert (kept.model, kept.models) == (str(tmp_path / "models" / "mlp"), str(tmp_path / "models"))
    assert set(model_names(kept)) == set(MODELS)
    plain = settings(model="hub:a/b@c")
    assert from_anywhere(plain) == plain


def test_what_a_text_model_answers_and_takes(tmp_path: Path) -> None:
    """Embeddings are a task of their own, any other answer is not; whether pairs are taken the tokenizer says."""
    make_encoder(tmp_path / "mean", modules=("Transformer", "Pooling"))
    make_encoder(
        tmp_path / "multi", labels=("a", "b"), pairs=False, problem_type="multi_label_classification"
    )
    found = read_catalog(settings(models=str(tmp_path))).models
    assert {name: (card.task, card.pairs, card.kind) for name, card in found.items()} == {
        "builtin": (Task.TEXT, True, Kind.SINGLE),
        "mean": (Task.EMBEDDING, True, Kind.EMBEDDING),
        "multi": (Task.TEXT, False, Kind.MULTI),
    }
    assert all(card.takes_text for card in found.values())
    simulated = read_catalog(settings(model="simulated:1,1")).models["simulated"]
    assert (simulated.pairs, simulated.kind) == (False, Kind.SINGLE)
    make_encoder(tmp_path / "plain")
    with pytest.raises(OperatorError, match=r"say in inferq\.json"):
        read_catalog(settings(models=str(tmp_path)))


@pytest.mark.parametrize("spec", ["hub:owner/minilm", f"hub:owner/minilm@{'a' * 40}", "hub:owner/minilm@v1"])
def test_a_model_of_the_hub_is_known_once_it_is_here(tmp_path: Path, spec: str) -> None:
    """Where it has been downloaded its folder is read; before that only its batcher can say."""
    given = settings(model=spec, cache_dir=str(tmp_path))
    (unknown,) = read_catalog(given).models.values()
    assert (unknown.task, unknown.pairs, unknown.kind) == (Task.TEXT, None, None)
    cache = HubCache(root=models_dir(tmp_path), repo="owner/minilm")
    make_encoder(cache.folder("a" * 40), modules=("Transformer", "Pooling"))
    for revision in ("main", "v1"):
        cache.remember(revision, "a" * 40)
    (known,) = read_catalog(given).models.values()
    assert (known.name, known.spec, known.task, known.pairs) == (unknown.name, spec, Task.EMBEDDING, True)
