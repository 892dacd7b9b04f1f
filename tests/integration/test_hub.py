"""Hub models: download, digests, cache and offline start, against a stand-in for the hub's HTTP API."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from inferq import hub, hubcache
from inferq.errors import OperatorError
from inferq.head import Head, Kind, Pooling
from inferq.modelspec import parse
from tests.encodermodels import make_encoder
from tests.hubstandin import HubStandIn, files_of, serving
from tests.tinymodel import LABELS, make_tiny_model

COMMIT = "a" * 40
NEWER = "b" * 40


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HubStandIn]:
    """A hub that holds one small model, with code and a pickle that nobody should fetch."""
    files = files_of(make_tiny_model(tmp_path / "source"))
    files |= {"modeling_evil.py": b"raise SystemExit", "pytorch_model.bin": b"pickle"}
    with serving(HubStandIn(repo="owner/tiny", commit=COMMIT, files=files)) as standin:
        yield standin


def test_a_model_is_downloaded_checked_and_cached(server: HubStandIn, tmp_path: Path) -> None:
    """Only the needed files come, in a folder named by the commit, and progress reaches the total."""
    seen: list[tuple[str, int, int]] = []
    folder = hub.resolve(
        parse("hub:owner/tiny"),
        cache_dir=tmp_path,
        endpoint=server.endpoint,
        progress=lambda *step: seen.append(step),
    )
    assert folder.path == tmp_path / "models" / "owner" / f"tiny@{COMMIT}"
    assert (folder.name, folder.labels, folder.note) == ("tiny", LABELS, None)
    assert {path.name for path in folder.path.iterdir()} == {
        "model.onnx",
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "manifest.json",
    }
    assert seen[-1][1] == seen[-1][2] > 0
    assert not [path for path in folder.path.parent.iterdir() if path.name.startswith(".")]
    assert [(model.repo, model.commit) for model in hubcache.cached(tmp_path)] == [("owner/tiny", COMMIT)]


def test_a_model_at_the_root_of_the_repository_is_taken_too(server: HubStandIn, tmp_path: Path) -> None:
    """`model.onnx` serves where there is no `onnx/model.onnx`."""
    server.files["model.onnx"] = server.files.pop("onnx/model.onnx")
    folder = hub.resolve(parse("hub:owner/tiny"), cache_dir=tmp_path, endpoint=server.endpoint)
    assert (folder.path / "model.onnx").is_file()


@pytest.mark.parametrize("name", ["onnx/model.onnx", "config.json"])
def test_a_damaged_file_is_refused(server: HubStandIn, tmp_path: Path, name: str) -> None:
    """A file whose digest is not the hub's leaves nothing in the cache, large or small."""
    server.damaged.add(name)
    with pytest.raises(OperatorError, match="arrived damaged"):
        hub.resolve(parse("hub:owner/tiny"), cache_dir=tmp_path, endpoint=server.endpoint)
    assert hubcache.cached(tmp_path) == []
    assert list((tmp_path / "models" / "owner").iterdir()) == []


@pytest.mark.parametrize("revision", [COMMIT, "v1"])
def test_a_cached_revision_starts_without_the_network(
    server: HubStandIn, tmp_path: Path, revision: str
) -> None:
    """A commit or tag that was downloaded once asks the hub nothing any more."""
    spec = parse(f"hub:owner/tiny@{revision}")
    first = hub.resolve(spec, cache_dir=tmp_path, endpoint=server.endpoint)
    server.asked.clear()
    assert hub.resolve(spec, cache_dir=tmp_path, endpoint=server.endpoint) == first
    assert server.asked == []


def test_without_a_revision_the_cache_serves_while_the_hub_is_away(
    server: HubStandIn, tmp_path: Path
) -> None:
    """The newest commit is asked for, and the cached one is used, and said, when there is no answer."""
    spec = parse("hub:owner/tiny")
    hub.resolve(spec, cache_dir=tmp_path, endpoint=server.endpoint)
    server.broken = True
    folder = hub.resolve(spec, cache_dir=tmp_path, endpoint=server.endpoint)
    assert folder.path.name == f"tiny@{COMMIT}"
    assert folder.note is not None
    assert COMMIT in folder.note


def test_without_a_revision_a_newer_commit_is_taken(server: HubStandIn, tmp_path: Path) -> None:
    """A commit that the hub has since got replaces the cached one."""
    spec = parse("hub:owner/tiny")
    hub.resolve(spec, cache_dir=tmp_path, endpoint=server.endpoint)
    server.commit = NEWER
    assert hub.resolve(spec, cache_dir=tmp_path, endpoint=server.endpoint).path.name == f"tiny@{NEWER}"
    pinned = hub.resolve(parse(f"hub:owner/tiny@{COMMIT}"), cache_dir=tmp_path, endpoint=server.endpoint)
    assert pinned.path.name == f"tiny@{COMMIT}"


@pytest.mark.parametrize("change", ["edit", "add", "remove", "no manifest"])
def test_a_changed_cache_is_noticed(server: HubStandIn, tmp_path: Path, change: str) -> None:
    """A file that was edited, added or removed since the download stops the start."""
    spec = parse(f"hub:owner/tiny@{COMMIT}")
    path = hub.resolve(spec, cache_dir=tmp_path, endpoint=server.endpoint).path
    if change == "edit":
        (path / "tokenizer_config.json").write_text("{}")
    elif change == "add":
        (path / "added_tokens.json").write_text("{}")
    else:
        (path / ("config.json" if change == "remove" else "manifest.json")).unlink()
    with pytest.raises(OperatorError, match="delete that folder"):
        hub.resolve(spec, cache_dir=tmp_path, endpoint=server.endpoint)


@pytest.mark.parametrize(
    ("text", "says"),
    [("hub:owner/none", "no repository owner/none"), ("hub:owner/tiny@v9", "no revision v9")],
)
def test_what_the_hub_does_not_have_is_one_line(
    server: HubStandIn, tmp_path: Path, text: str, says: str
) -> None:
    """A missing repository or revision is said in one line."""
    with pytest.raises(OperatorError, match=says) as caught:
        hub.resolve(parse(text), cache_dir=tmp_path, endpoint=server.endpoint)
    assert "\n" not in str(caught.value)


def test_a_hub_that_is_away_and_no_cache_is_one_line(tmp_path: Path) -> None:
    """With nothing cached and nobody listening, the start stops with one line."""
    with pytest.raises(OperatorError, match="could not be reached") as caught:
        hub.resolve(parse("hub:owner/tiny"), cache_dir=tmp_path, endpoint="http://127.0.0.1:9")
    assert "\n" not in str(caught.value)


def test_a_repository_without_onnx_or_safetensors_is_refused(server: HubStandIn, tmp_path: Path) -> None:
    """Pickled weights are not an alternative."""
    del server.files["onnx/model.onnx"]
    with pytest.raises(OperatorError, match=r"neither an ONNX file nor model\.safetensors"):
        hub.resolve(parse("hub:owner/tiny"), cache_dir=tmp_path, endpoint=server.endpoint)


def test_a_repository_without_onnx_names_the_extra(
    server: HubStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where torch is not installed, a repository of safetensors alone says what to install."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    server.files["model.safetensors"] = server.files.pop("onnx/model.onnx")
    with pytest.raises(OperatorError, match=r"-m pip install .*torch"):
        hub.resolve(parse("hub:owner/tiny"), cache_dir=tmp_path, endpoint=server.endpoint)


def test_weights_outside_the_folder_are_refused(server: HubStandIn, tmp_path: Path) -> None:
    """A downloaded graph that names a file elsewhere never reaches the cache."""
    evil = make_tiny_model(tmp_path / "evil", external="../../../etc/passwd")
    server.files |= files_of(evil)
    with pytest.raises(OperatorError, match="outside its folder"):
        hub.resolve(parse("hub:owner/tiny"), cache_dir=tmp_path, endpoint=server.endpoint)
    assert hubcache.cached(tmp_path) == []


def test_refresh_asks_the_hub_again(server: HubStandIn, tmp_path: Path) -> None:
    """Pulling a tag that has moved takes what it means now."""
    spec = parse("hub:owner/tiny@v1")
    hub.resolve(spec, cache_dir=tmp_path, endpoint=server.endpoint)
    server.commit = NEWER
    folder = hub.resolve(spec, cache_dir=tmp_path, endpoint=server.endpoint, refresh=True)
    assert folder.path.name == f"tiny@{NEWER}"


def test_a_model_of_embeddings_comes_with_what_says_so(tmp_path: Path) -> None:
    """Its list of modules, its pooling and its length: without them its numbers would be others, or none."""
    source = make_encoder(tmp_path / "source", modules=("Transformer", "Pooling", "Normalize"))
    (source / "sentence_bert_config.json").write_text('{"max_seq_length": 20}')
    files = files_of(source) | {"9_Pooling/pytorch_model.bin": b"pickle"}
    with serving(HubStandIn(repo="owner/minilm", commit=COMMIT, files=files)) as standin:
        spec = parse(f"hub:owner/minilm@{COMMIT}")
        folder = hub.resolve(spec, cache_dir=tmp_path, endpoint=standin.endpoint)
        again = hub.resolve(spec, cache_dir=tmp_path, endpoint="http://127.0.0.1:1")
    assert folder == again
    assert folder.head == Head(kind=Kind.EMBEDDING, pooling=Pooling.MEAN, normalize=True)
    assert (folder.pairs, folder.max_length) == (True, 20)
    assert not (folder.path / "9_Pooling").exists()
