"""Outputs of a batch, shared out to its jobs."""

import pytest

from inferq.tensors.batching import share_out
from inferq.tensors.datatypes import Datatype
from inferq.tensors.signature import Port
from inferq.tensors.tensor import Tensor, TensorError


def output(*shape: int, data: bytes) -> Tensor:
    """Make an output of single bytes."""
    return Tensor(name="y", datatype=Datatype.INT8, shape=shape, data=data)


def port(*shape: int | None) -> Port:
    """Describe that output."""
    return Port(name="y", datatype=Datatype.INT8, shape=shape)


@pytest.mark.parametrize("made", [port(None, 2), Port(name="y", datatype=Datatype.INT8, shape=None)])
def test_each_job_gets_its_rows(made: Port) -> None:
    """As many as it brought, in order."""
    parts = share_out(output(4, 2, data=b"aabbccdd"), made, [1, 2, 1])
    assert [(part.name, part.shape, part.data) for part in parts] == [
        ("y", (1, 2), b"aa"), ("y", (2, 2), b"bbcc"), ("y", (1, 2), b"dd"),
    ]  # fmt: skip  # parts side by side


def test_rows_may_be_empty() -> None:
    """An axis of no length leaves each job its own empty rows."""
    assert [part.shape for part in share_out(output(2, 0, data=b""), port(None, None), [1, 1])] == [
        (1, 0)
    ] * 2


@pytest.mark.parametrize(("made", "shape"), [(port(3), (3,)), (port(), ())])
def test_what_has_no_rows_is_everybodys(made: Port, shape: tuple[int, ...]) -> None:
    """An output whose first axis the graph fixes, or without axes."""
    whole = output(*shape, data=b"abc"[: shape[0] if shape else 1])
    assert share_out(whole, made, [1, 1, 1]) == [whole] * 3


@pytest.mark.parametrize("shape", [(3, 1), (), (1,)])
def test_a_job_alone_gets_all(shape: tuple[int, ...]) -> None:
    """However many rows came out: they are all its own."""
    whole = output(*shape, data=b"abc")
    assert share_out(whole, port(None, None), [2]) == [whole]


@pytest.mark.parametrize("shape", [(3, 1), (1,), ()])
def test_what_cannot_be_told_apart(shape: tuple[int, ...]) -> None:
    """More rows or fewer than the jobs brought together."""
    with pytest.raises(TensorError, match="for a batch of 2 rows"):
        share_out(output(*shape, data=b"abc"), port(None, None), [1, 1])
