"""Frames between the batcher and its engine process."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batcher import frames
from batcher.frames import batcher_reader, body_bytes, encode, engine_reader
from batcher.wire import (
    Arrange,
    Arranged,
    ArrangeFailed,
    Feed,
    FromEngine,
    Load,
    Loaded,
    LoadFailed,
    Ran,
    RanTensors,
    Run,
    RunFailed,
    RunTensors,
    ToEngine,
    WireError,
    pack_run,
    pack_tensors,
)
from inferq.tensors.datatypes import Datatype
from inferq.tensors.tensor import Tensor

LOAD = Load(spec="simulated:1,1", folder=None, device="auto", precision="fp32")
ARRANGE = Arrange(runs=2, threads=1, wide_threads=2, spin=False)
JOBS = [
    [
        Tensor(name="x", datatype=Datatype.INT16, shape=(rows, 1), data=bytes([number]) * 2 * rows),
        Tensor(name="m", datatype=Datatype.BOOL, shape=(rows,), data=b"\1" * rows),
    ]
    for number, rows in enumerate((1, 2))
]
ANSWERS: list[FromEngine] = [
    Loaded(
        device="cpu",
        fallback_reason="no CUDA",
        labels=["NEGATIVE", "POSITIVE"],
        max_length=512,
        digest="abc",
        providers=["CPUExecutionProvider"],
        load_ms=12.5,
    ),
    LoadFailed(detail="no such folder"),
    Arranged(),
    ArrangeFailed(detail="no room"),
    Ran(
        run_id=7,
        rows=1,
        labels=2,
        logits=np.array([[1, 2]], dtype="<f4").tobytes(),
        compute_ms=3.0,
    ),
    RanTensors(run_id=9, rows=2, outputs=JOBS[0], compute_ms=1.5),
    RunFailed(run_id=8, detail="ValueError: no"),
]


@given(st.integers(min_value=1, max_value=64))
def test_messages_survive_any_pieces(piece: int) -> None:
    """What arrives in pieces of any size comes out as the messages that were sent, in order."""
    asked: list[ToEngine] = [LOAD, ARRANGE, pack_run(1, [[5, 6, 7], [8]], wide=True), pack_tensors(2, JOBS)]
    for messages, reader in ((asked, engine_reader()), (ANSWERS, batcher_reader())):
        sent = b"".join(encode(message) for message in messages)
        got: list[ToEngine | FromEngine] = []
        for start in range(0, len(sent), piece):
            got += reader.feed(sent[start : start + piece])
        assert got == messages


def test_packed_tensors_are_joined_along_the_first_axis() -> None:
    """Each input of all jobs, in their order."""
    x, m = pack_tensors(3, JOBS, wide=True).joined()
    assert (x.name, x.datatype, x.shape, x.data) == ("x", Datatype.INT16, (3, 1), b"\0\0\1\1\1\1")
    assert (m.name, m.datatype, m.shape, m.data) == ("m", Datatype.BOOL, (3,), b"\1\1\1")


@pytest.mark.parametrize(
    ("rows", "feeds"),
    [
        ([], [Feed(name="x", datatype=Datatype.INT8, axes=(1,), parts=[])]),
        ([0, 1], [Feed(name="x", datatype=Datatype.INT8, axes=(1,), parts=[b"", b"a"])]),
        ([1], []),
        ([1, 1], [Feed(name="x", datatype=Datatype.INT8, axes=(1,), parts=[b"a"])]),
        ([1], [Feed(name="x", datatype=Datatype.INT8, axes=(-1,), parts=[b"a"])]),
        ([1], [Feed(name="x", datatype=Datatype.INT8, axes=(2**60,), parts=[b"a"])]),
    ],
)
def test_a_run_of_tensors_that_does_not_fit_is_refused(rows: list[int], feeds: list[Feed]) -> None:
    """Sizes are checked before anything is made of the bytes."""
    with pytest.raises(WireError, match="a run"):
        RunTensors(run_id=1, wide=False, rows=rows, feeds=feeds).joined()


def test_a_run_is_padded_to_a_shape() -> None:
    """Rows that are added hold one token of padding; a shape that is too small changes nothing."""
    run = pack_run(7, [[5, 6], [8]], pad_id=9, shape=(4, 3))
    ids, mask = run.arrays()
    assert (run.rows, run.length, run.lengths) == (4, 3, [2, 1, 1, 1])
    assert ids.tolist() == [[5, 6, 9], [8, 9, 9], [9, 9, 9], [9, 9, 9]]
    assert mask.tolist() == [[1, 1, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0]]
    assert pack_run(7, [[5, 6], [8]], shape=(1, 1)) == pack_run(7, [[5, 6], [8]])


def test_a_packed_run_is_padded_on_the_right() -> None:
    """Rows become one rectangle, padded with the model's own id, and a mask of what is real."""
    ids, mask = pack_run(3, [[5, 6, 7], np.array([8])], pad_id=1).arrays()
    assert ids.dtype == mask.dtype == np.int64
    assert ids.tolist() == [[5, 6, 7], [8, 1, 1]]
    assert mask.tolist() == [[1, 1, 1], [1, 0, 0]]


@pytest.mark.parametrize(
    "run",
    [
        Run(run_id=1, wide=False, rows=0, length=0, lengths=[], ids=b""),
        Run(run_id=1, wide=False, rows=1, length=2, lengths=[2, 2], ids=bytes(8)),
        Run(run_id=1, wide=False, rows=1, length=2, lengths=[2], ids=bytes(7)),
        Run(run_id=1, wide=False, rows=1, length=2, lengths=[3], ids=bytes(8)),
        Run(run_id=1, wide=False, rows=1, length=2, lengths=[0], ids=bytes(8)),
    ],
)
def test_a_run_whose_sizes_disagree_is_refused(run: Run) -> None:
    """Sizes are checked before they are believed."""
    with pytest.raises(WireError):
        run.arrays()


def test_an_answer_carries_its_logits() -> None:
    """Logits come back as a matrix; an answer whose sizes disagree is refused."""
    logits = np.array([[0.5, -1.5], [2.0, 0.25]], dtype="<f4")
    answer = Ran(run_id=1, rows=2, labels=2, logits=logits.tobytes(), compute_ms=1.0)
    assert answer.matrix().tolist() == logits.tolist()
    with pytest.raises(WireError):
        msgspec.structs.replace(answer, rows=3).matrix()


def test_frames_are_bounded_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame over the limit is neither sent nor waited for."""
    with pytest.raises(WireError):
        body_bytes(b"\xff\xff\xff\xff")
    with pytest.raises(WireError):
        engine_reader().feed((frames.MAX_FRAME_BYTES + 1).to_bytes(4, "big"))
    monkeypatch.setattr(frames, "MAX_FRAME_BYTES", 16)
    with pytest.raises(WireError):
        encode(LOAD)


def test_what_is_no_message_of_this_direction_is_refused() -> None:
    """Neither noise nor an answer is taken for a request."""
    with pytest.raises(WireError):
        engine_reader().feed(b"\0\0\0\1\xc1")
    with pytest.raises(WireError):
        engine_reader().feed(encode(ANSWERS[0]))


def test_a_pairs_tokens_say_which_text_they_are_of() -> None:
    """Padded with 0 beside others; without a pair nothing is sent of it."""
    run = pack_run(1, [[5, 6, 7], [5], [8, 9]], types=[[0, 1, 2], [], [0, 1]])
    types = run.token_types()
    assert types is not None
    assert types.dtype == np.int64
    assert types.tolist() == [[0, 1, 2], [0, 0, 0], [0, 1, 0]]
    assert pack_run(1, [[5], [6]], types=[(), ()]).token_types() is None
    with pytest.raises(WireError, match="token types"):
        msgspec.structs.replace(run, types=b"ab").token_types()
