"""From what a request says of tensors to the tensors that its model takes. Pure.

A shape is believed only as far as the limit goes: what it claims is compared with that before anything is read.
"""

import msgspec

from inferq.catalog import Catalog, ModelCard
from inferq.errors import ModelNotFound
from inferq.tensors.datatypes import LAYOUTS
from inferq.tensors.jsondata import read_values
from inferq.tensors.signature import check, vector_tensor
from inferq.tensors.tensor import Tensor, TensorError, count_of
from ingress.bodyfaults import refused
from ingress.requests import BinaryTensor, InferRequest, InputTensor

_NAMED = 10


def choose_model(request: InferRequest, catalog: Catalog) -> ModelCard:
    """Return the model that a request is for.

    Raises:
        ModelNotFound: there is none by that name, or none that takes tensors.
        InvalidRequest: it takes something else than what was sent.
    """
    field = request.kind
    if request.model is not None:
        card = catalog.models.get(request.model)
        if card is None:
            raise ModelNotFound(_there_are(catalog))
    elif field == "text":
        card = catalog.models[catalog.default]
    else:
        card = catalog.default_tensor
        if card is None:
            names = [one.name for one in catalog.tensor_models]
            if not names:
                raise ModelNotFound("this service runs no model that takes tensors")
            raise refused("/model", "model", f"must name a model that takes tensors: {_listed(names)}")
    if card.takes_text != (field == "text"):
        taken = "a text" if card.takes_text else "inputs"
        raise refused(f"/{field}", field, f"is not for the model {card.name!r}, which takes {taken}")
    # Where that is not known here, the batcher says it.
    if card.pairs is False and request.text_pair is not msgspec.UNSET:
        raise refused("/text_pair", "text_pair", f"is not for the model {card.name!r}, which takes one text")
    return card


def tensors_of(request: InferRequest, card: ModelCard, *, max_bytes: int) -> tuple[Tensor, ...]:
    """Return the tensors of a request for a tensor model, in the order of the graph's inputs; none for a text model.

    Raises:
        InvalidRequest: they are not what the graph takes, or hold more than ``max_bytes``.
    """
    if card.signature is None:
        return ()
    field = request.kind
    try:
        if field == "input_data":
            port = card.signature.vector
            if port is None:
                takes = ", ".join(one.text for one in card.signature.inputs)
                raise TensorError(f"is not for the model {card.name!r}, which takes inputs: {takes}")
            given = [vector_tensor(request.input_data or [], port)]
        else:
            given = _read(request.inputs or [], max_bytes)
        return check(given, card.signature, max_bytes=max_bytes)
    except TensorError as error:
        pointer = f"/{field}"
        if field == "inputs":
            pointer += "".join(f"/{part}" for part in (error.index, error.field) if part not in (None, ""))
        raise refused(pointer, pointer[1:].replace("/", "."), error.detail) from None


def _read(inputs: list[InputTensor], max_bytes: int) -> list[Tensor]:
    made, left_bytes = [], max_bytes
    for index, one in enumerate(inputs):
        try:
            left_bytes -= count_of(one.shape) * LAYOUTS[one.datatype].size_bytes
            if left_bytes < 0:
                raise TensorError(
                    f"must be such that all inputs hold at most {max_bytes} bytes", field="shape"
                )
            raw = one.raw if isinstance(one, BinaryTensor) else None
            data = read_values(one.data, one.datatype, one.shape) if raw is None else raw
        except TensorError as error:
            raise error.at(index) from None
        made.append(Tensor(name=one.name, datatype=one.datatype, shape=tuple(one.shape), data=data))
    return made


def _there_are(catalog: Catalog) -> str:
    if len(catalog.models) == 1:
        return f"this service runs the model {catalog.default!r} alone"
    return f"this service runs the models {_listed(list(catalog.models))}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
