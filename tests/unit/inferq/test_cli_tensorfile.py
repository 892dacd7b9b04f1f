"""Inputs of a job from a file."""

from pathlib import Path

import numpy as np
import pytest

from inferq.cli.tensorfile import read_inputs
from inferq.errors import OperatorError


def written(folder: Path, text: str) -> Path:
    """Write a file."""
    path = folder / "inputs.json"
    path.write_text(text)
    return path


def test_lists_by_their_names(tmp_path: Path) -> None:
    """As they stand: the client makes tensors of them."""
    assert read_inputs(written(tmp_path, '{"x": [[1, 2.5]], "ids": [[3]]}')) == {
        "x": [[1, 2.5]],
        "ids": [[3]],
    }


def test_inputs_as_the_api_has_them(tmp_path: Path) -> None:
    """With the types and shapes that they state."""
    text = '{"inputs": [{"name": "x", "datatype": "INT8", "shape": [2, 1], "data": [1, 2]}]}'
    (found,) = read_inputs(written(tmp_path, text)).values()
    assert isinstance(found, np.ndarray)
    assert (found.dtype, found.tolist()) == (np.dtype("i1"), [[1], [2]])


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "[[1]]", '"x"', '{"x": 1}', "{", "[" * 100_000, '{"inputs": [1]}',
        '{"inputs": [{"name": "x", "datatype": "INT8", "shape": [2], "data": [1]}]}',
        '{"inputs": [{"name": "x", "datatype": "INT8", "shape": [1], "data": [300]}]}',
    ],
)  # fmt: skip  # texts side by side
def test_files_without_inputs(tmp_path: Path, text: str) -> None:
    """One line with the cure."""
    with pytest.raises(OperatorError, match="holds no inputs"):
        read_inputs(written(tmp_path, text))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """So too."""
    with pytest.raises(OperatorError, match="cannot be read"):
        read_inputs(tmp_path / "gone")
