"""Model folders, tokenizers and sessions, with a tiny model and what can be wrong with one."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from batcher import model as model_module
from batcher import session as session_module
from batcher.layout import Layout, LayoutRefused
from batcher.model import OnnxModel, load
from batcher.tokenizer import FAULT_IDS, FolderTokenizer, InputRefused, SimulatedTokenizer, open_tokenizer
from batcher.wire import pack_run
from inferq.cpus import available_cpus
from inferq.errors import OperatorError
from inferq.modelfolder import check, digest, resolve
from inferq.modelspec import parse
from inferq.onnxfile import external_files
from tests.tinymodel import LABELS, MAX_LENGTH, external_data_of, make_tiny_model


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A fresh model folder."""
    return make_tiny_model(tmp_path / "tiny")


def test_a_folder_is_resolved_and_runs(tiny: Path) -> None:
    """Text goes in, the right label has the higher logit, and padding changes nothing."""
    spec = parse(str(tiny))
    folder = resolve(spec)
    assert folder is not None
    tokenizer = open_tokenizer(spec, folder)
    model = load(spec, folder, device="auto", precision="fp32")
    rows = [tokenizer.encode(text).ids for text in ("good film", "bad", "a bad bad plot")]
    logits = model.run(*pack_run(1, rows, pad_id=tokenizer.pad_id).arrays())
    assert logits.dtype == np.float32
    assert np.argmax(logits, axis=1).tolist() == [1, 0, 0]
    assert (folder.name, model.labels, model.max_length) == ("tiny", LABELS, MAX_LENGTH)
    assert model.device == "cpu"
    assert model.fallback_reason == "this ONNX Runtime is built without CUDA"


def test_long_texts_are_cut_and_said_so(tiny: Path) -> None:
    """The limit is the model's positions, special tokens included; a text that just fits is not cut."""
    tokenizer = FolderTokenizer(check(tiny, name="tiny"))
    fits, longer = tokenizer.encode("film " * (MAX_LENGTH - 2)), tokenizer.encode("film " * (MAX_LENGTH - 1))
    assert (len(fits.ids), fits.truncated) == (MAX_LENGTH, False)
    assert (len(longer.ids), longer.truncated) == (MAX_LENGTH, True)


def test_a_text_that_the_tokenizer_cannot_read_is_refused_without_quoting_it(tiny: Path) -> None:
    """A lone surrogate is no text; the reason does not carry the input."""
    with pytest.raises(InputRefused) as caught:
        FolderTokenizer(check(tiny, name="tiny")).encode("secret \ud800")
    assert "secret" not in caught.value.reason


def _change_config(**changes: object) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | changes))

    return change


def _put(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


def _linked(name: str, target: str) -> Callable[[Path], object]:
    """Put a link in a file's place. To read one's own memory from 0 on fails for every user."""

    def change(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).symlink_to(target)

    return change


def _unending(name: str) -> Callable[[Path], object]:
    """Put a file of 8 GiB of zeros, which take no room, in a file's place."""

    def change(folder: Path) -> None:
        with (folder / name).open("wb") as file:
            file.truncate(8 << 30)

    return change


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (shutil.rmtree, "no model folder"),
        (lambda folder: (folder / "model.onnx").unlink(), "has no model.onnx"),
        (lambda folder: (folder / "model.onnx").write_bytes(b""), "no readable ONNX file"),
        (lambda folder: (folder / "model.onnx").write_bytes(b"<html>"), "no readable ONNX file"),
        (lambda folder: (folder / "model.onnx").write_bytes(b"version https://git-lfs"), "git lfs pull"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "has no tokenizer"),
        (lambda folder: (folder / "config.json").unlink(), "is missing"),
        (lambda folder: (folder / "config.json").write_text("{"), "not readable JSON"),
        (lambda folder: (folder / "config.json").write_text("[]"), "not a JSON object"),
        (_change_config(id2label={"1": "a"}), "id2label must name"),
        (_change_config(id2label={}), "id2label must name"),
        (_change_config(id2label={"0": "a", "1": "a"}), "twice"),
        (
            _change_config(max_position_embeddings=0),
            r"config\.json: the longest input must be at least 1 token",
        ),
        (
            _put("tokenizer_config.json", b'{"model_max_length": 0}'),
            r"tokenizer_config\.json: the longest input",
        ),
        (
            _linked("config.json", "/proc/self/mem"),
            r"config\.json cannot be read \(.*\): let this user",
        ),
        (_linked("tokenizer.json", "/proc/self/mem"), r"tokenizer\.json cannot be read"),
        (_linked("model.onnx", "/proc/self/mem"), "cannot be read"),
        (_linked("config.json", "/dev/zero"), r"config\.json is neither a file nor a folder: .* take it out"),
        (lambda folder: os.mkfifo(folder / "special_tokens_map.json"), "is neither a file nor a folder"),
        (_unending("config.json"), r"config\.json is larger than 128 MiB: copy"),
        (_unending("tokenizer.json"), "is larger than 128 MiB: copy"),
        (_unending("inferq.json"), "is larger than 128 MiB: copy"),
        (_unending("model.onnx"), "no readable ONNX file"),
    ],
)
def test_what_is_wrong_with_a_folder_is_one_line(
    tiny: Path, spoil: Callable[[Path], object], says: str
) -> None:
    """Each fault of a folder is named in one line before anything loads it."""
    spoil(tiny)
    with pytest.raises(OperatorError, match=says) as caught:
        resolve(parse(str(tiny)))
    assert "\n" not in str(caught.value)


def test_a_tokenizer_that_does_not_load_is_one_line(tiny: Path) -> None:
    """What its files say is passed on as it stands there, so what the loader makes of it is an operator's mistake."""
    (tiny / "tokenizer_config.json").write_text(json.dumps({"model_max_length": "x"}))
    with pytest.raises(OperatorError, match=r"does not load \(.*\): copy the model's files again") as caught:
        FolderTokenizer(check(tiny, name="tiny"))
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_has_no_digest(tiny: Path) -> None:
    """It is named, with the cure."""
    (tiny / "notes").symlink_to("/proc/self/mem")
    with pytest.raises(OperatorError, match=r"notes cannot be read .*: let this user read it"):
        digest(tiny)


@pytest.mark.parametrize("location", ["/etc/hostname", "../weights", "a/../../weights"])
def test_weights_outside_the_folder_are_refused(tmp_path: Path, location: str) -> None:
    """A graph may not name a file elsewhere as its weights."""
    folder = make_tiny_model(tmp_path / "tiny", external=location)
    assert external_files(folder / "model.onnx") == {location}
    with pytest.raises(OperatorError, match="outside its folder"):
        check(folder, name="tiny")


@pytest.mark.parametrize("location", ["a\0b", "", "x" * 5000, "loop"])
def test_weights_at_no_place_are_told_in_one_line(tmp_path: Path, location: str) -> None:
    """What a graph names may be no path at all, or one that leads nowhere."""
    folder = make_tiny_model(tmp_path / "tiny", external=location)
    (folder / "loop").symlink_to("loop")
    with pytest.raises(OperatorError, match="needs its weights file") as caught:
        check(folder, name="tiny")
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


def test_weights_behind_a_link_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    """A link does not make a file elsewhere part of the folder."""
    folder = make_tiny_model(tmp_path / "tiny", external="model.onnx_data")
    with pytest.raises(OperatorError, match="needs its weights file"):
        check(folder, name="tiny")
    (tmp_path / "elsewhere").write_bytes(external_data_of(tmp_path))
    (folder / "model.onnx_data").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OperatorError, match="behind a link"):
        check(folder, name="tiny")


def test_weights_beside_the_graph_are_loaded(tmp_path: Path) -> None:
    """External weights inside the folder are as good as weights in the graph."""
    folder = make_tiny_model(tmp_path / "tiny", external="model.onnx_data")
    (folder / "model.onnx_data").write_bytes(external_data_of(tmp_path))
    model = OnnxModel(check(folder, name="tiny"), device="cpu")
    assert model.labels == LABELS
    assert model.fallback_reason is None


def test_labels_must_be_as_many_as_logits(tmp_path: Path) -> None:
    """A config that names three labels for two logits is refused; one that names none gets numbered labels."""
    folder = make_tiny_model(tmp_path / "three", labels=("a", "b", "c"))
    with pytest.raises(OperatorError, match=r"2 logits but its config\.json names 3 labels"):
        OnnxModel(check(folder, name="three"), device="cpu")
    config = json.loads((folder / "config.json").read_text())
    del config["id2label"]
    (folder / "config.json").write_text(json.dumps(config))
    assert OnnxModel(check(folder, name="three"), device="cpu").labels == ("LABEL_0", "LABEL_1")


@pytest.mark.parametrize(
    ("device", "precision", "says"),
    [
        ("cuda", "fp32", "built without CUDA: .*pip install .*onnxruntime-gpu"),
        ("cpu", "int8", r"has no model\.int8\.onnx: make one with"),
    ],
)
def test_what_this_machine_cannot_do_is_refused(tiny: Path, device: str, precision: str, says: str) -> None:
    """`cuda` without CUDA, and a precision that is not there, stop the start with the cure."""
    with pytest.raises(OperatorError, match=says):
        load(parse(str(tiny)), check(tiny, name="tiny"), device=device, precision=precision)


def test_two_runtimes_over_each_other_are_refused(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`onnxruntime` and `onnxruntime-gpu` share their files, so having both is refused with the cure."""
    monkeypatch.setattr(session_module, "_is_installed", lambda name: True)
    with pytest.raises(OperatorError, match="overwrite each other"):
        OnnxModel(check(tiny, name="tiny"), device="cpu")


def test_a_layout_that_memory_does_not_allow_is_refused(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More weights than there is memory for are refused, the layout in force stays; shared weights need none."""
    model = OnnxModel(check(tiny, name="tiny"), device="cpu")
    ids, mask = pack_run(1, [[4, 7]]).arrays()
    alone = model.run(ids, mask).tolist()
    monkeypatch.setattr(model_module, "available_bytes", lambda: 0)
    with pytest.raises(LayoutRefused, match=r"layout 2 x 2 needs .* MiB more memory, and 0 MiB are left"):
        model.arrange(Layout(runs=2, threads=2))
    assert model.run(ids, mask, wide=True).tolist() == alone
    model.arrange(Layout(runs=8, threads=1))
    monkeypatch.setattr(model_module, "available_bytes", lambda: None)
    model.arrange(Layout(runs=2, threads=2, wide_threads=2, spin=True))
    assert model.run(ids, mask).tolist() == model.run(ids, mask, wide=True).tolist() == alone


def test_a_layout_that_does_not_open_is_taken_back(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a session fails to open, those that were closed for it come back."""
    model = OnnxModel(check(tiny, name="tiny"), device="cpu")

    def no_threads(path: Path, *, threads: int, **options: Any) -> session_module.OnnxSession:
        if threads > 1:
            raise OperatorError("no threads to be had")
        return session_module.OnnxSession(path, threads=threads, **options)

    monkeypatch.setattr(model_module, "OnnxSession", no_threads)
    with pytest.raises(LayoutRefused, match="layout 1 x 2: no threads to be had"):
        model.arrange(Layout(runs=1, threads=2))
    assert model.run(*pack_run(1, [[4]]).arrays()).shape == (1, 2)


def test_the_digest_follows_every_file(tiny: Path) -> None:
    """The digest is the same for a copy in another place and changes with any byte of any file."""
    first = digest(tiny)
    copy = tiny.with_name("copy")
    shutil.copytree(tiny, copy)
    assert digest(copy) == first
    (copy / "config.json").write_bytes((copy / "config.json").read_bytes() + b"\n")
    assert digest(copy) != first


def test_a_simulated_model_answers_from_the_ids_alone() -> None:
    """The same text has the same answer in any batch and at any padding."""
    spec = parse("simulated:0,0")
    assert resolve(spec) is None
    tokenizer = open_tokenizer(spec, None)
    model = load(spec, None, device="auto", precision="fp32")
    rows = [tokenizer.encode(text).ids for text in ("one", "two words", "three more words")]
    together = model.run(*pack_run(1, rows).arrays())
    alone = [model.run(*pack_run(1, [row]).arrays())[0].tolist() for row in rows]
    assert together.tolist() == alone
    with pytest.raises(OperatorError, match="simulated"):
        load(spec, None, device="cuda", precision="fp32")


def test_simulated_texts_order_faults_only_where_they_are_on() -> None:
    """Orders are read with `faults`, survive truncation, and are plain words without it."""
    tokenizer = SimulatedTokenizer(faults=True)
    encoded = tokenizer.encode("word " * 600 + "so[[crash]]so")
    assert FAULT_IDS["crash"] in encoded.ids
    assert (len(encoded.ids), encoded.truncated) == (512, True)
    with pytest.raises(InputRefused):
        tokenizer.encode("please [[refuse]] this")
    with pytest.raises(InputRefused):
        tokenizer.encode("  ")
    plain = SimulatedTokenizer(faults=False).encode("[[raise]] [[refuse]]")
    assert not set(plain.ids) & set(FAULT_IDS.values())


def test_threads_are_sized_from_what_the_process_may_use() -> None:
    """A process bound to one CPU counts one."""
    command = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    command += "from inferq.cpus import available_cpus; print(available_cpus())"
    found = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "1"
    assert available_cpus() >= 1


def test_check_shows_a_model_or_one_line(tiny: Path) -> None:
    """`python -m batcher.check` prints device, labels and answers, or one line and exit code 1."""
    command = [sys.executable, "-m", "batcher.check"]
    good = subprocess.run([*command, str(tiny), "good film"], capture_output=True, text=True, check=True)
    assert "labels      NEGATIVE, POSITIVE" in good.stdout
    assert "POSITIVE    0.9820  good film" in good.stdout
    (tiny / "model.onnx").unlink()
    bad = subprocess.run([*command, str(tiny)], capture_output=True, text=True, check=False)
    assert (bad.returncode, bad.stdout, bad.stderr.count("\n")) == (1, "", 1)
