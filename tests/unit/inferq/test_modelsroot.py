"""Models as they lie in folders."""

import json
import os
from pathlib import Path

import pytest

from inferq.catalog import Task
from inferq.errors import OperatorError
from inferq.head import Kind
from inferq.hubcache import HubCache, models_dir
from inferq.modelfolder import check, digest
from inferq.modeljson import MOST_BYTES
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
    write_model(tmp_path / "mlp", MODELS["mlp"][0]())
    with pytest.raises(OperatorError, match="is a model's own folder: name the one that holds it"):
        model_names(settings(models=str(tmp_path / "mlp")))
    root = tmp_path / "models"
    (root / "empty").mkdir(parents=True)
    with pytest.raises(OperatorError, match=r"empty has no model\.onnx"):
        read_catalog(settings(models=str(root)))
    (root / "empty").rmdir()
    strings = write_strings(root / "strings")
    with pytest.raises(
        OperatorError, match=r"cannot be served \(input 'words' is of texts.*\): export it anew so"
    ):
        read_catalog(settings(models=str(root)))
    (strings / "model.onnx").write_bytes(b"garbage")
    with pytest.raises(OperatorError, match="no readable ONNX file"):
        read_catalog(settings(models=str(root)))
    with pytest.raises(
        OperatorError, match="INFERQ_SERVES='mlp': there is no such model, only builtin, strings"
    ):
        served_spec(settings(models=str(root), serves="mlp"))


@pytest.mark.parametrize("target", ["nowhere", "m"])
def test_a_model_behind_a_link_that_leads_nowhere_is_named(tmp_path: Path, target: str) -> None:
    """Left out, its jobs would be for a model that nobody knows; a link to a folder is a model."""
    root = tmp_path / "models"
    write_model(root / "mlp", MODELS["mlp"][0]())
    (root / "m").symlink_to(target)
    with pytest.raises(
        OperatorError, match="holds the link 'm', which leads nowhere: mend it, or take it out"
    ):
        model_names(settings(models=str(root)))
    (root / "m").unlink()
    (root / "m").symlink_to("mlp")
    assert set(read_catalog(settings(models=str(root))).models) == {"builtin", "m", "mlp"}


def test_what_the_system_does_not_let_be_read_is_one_line(tmp_path: Path) -> None:
    """A root, a model's folder, its graph and any file that counts; with the cure."""
    cure = r"cannot be read \(.+\): let this user read it, and the folders that it is in"
    with pytest.raises(OperatorError, match=cure):
        model_names(settings(models=str(tmp_path / ("a" * 300))))
    with pytest.raises(OperatorError, match=cure):
        check(tmp_path / ("a" * 300), name="m")
    folder = write_model(tmp_path / "mlp", MODELS["mlp"][0]())
    # The system refuses to read its first bytes, whoever asks.
    (folder / "notes").symlink_to("/proc/self/mem")
    with pytest.raises(OperatorError, match=cure):
        digest(folder)
    (folder / "model.onnx").unlink()
    (folder / "notes").rename(folder / "model.onnx")
    with pytest.raises(OperatorError, match=cure):
        check(folder, name="m")


def test_a_file_whose_name_is_no_text_counts_as_others_do(tmp_path: Path) -> None:
    """What is digested is the bytes of its name."""
    folder = write_model(tmp_path / "mlp", MODELS["mlp"][0]())
    before = digest(folder)
    (folder / os.fsdecode(b"a\xff")).write_text("")
    assert digest(folder) != before


@pytest.mark.parametrize("file", ["config.json", "inferq.json", "sentence_bert_config.json"])
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, file: str, kind: str) -> None:
    """A pipe would hold up the start for ever, and a device fill the memory."""
    path = make_tiny_model(tmp_path / "tiny") / file
    path.unlink(missing_ok=True)
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case _:
            path.mkdir()
    said = "no file: copy the" if kind == "folder" else "neither a file nor a folder: put the"
    with pytest.raises(OperatorError, match=f"{file} is {said} model's"):
        check(path.parent, name="m")


def test_a_file_of_words_is_of_a_bounded_length(tmp_path: Path) -> None:
    """One that is larger than any is not read at all."""
    path = make_tiny_model(tmp_path / "tiny") / "config.json"
    with path.open("r+b") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(OperatorError, match=r"is larger than 128 MiB: copy the model's file again"):
        check(path.parent, name="m")


def test_a_choice_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    """Who says how texts are answered forgot it; taken for a tensor model, the file would say nothing."""
    folder = write_model(tmp_path / "mlp", MODELS["mlp"][0]())
    (folder / "inferq.json").write_text('{"task":"embedding","pooling":"mean"}')
    with pytest.raises(
        OperatorError, match=r"no tokenizer: copy tokenizer\.json there, or take inferq\.json out"
    ):
        check(folder, name="m")


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
