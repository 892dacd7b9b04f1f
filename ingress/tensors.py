"""From what a request says of tensors to the tensors that its model takes. Pure."""

import msgspec

from inferq.catalog import Catalog, ModelCard, find, listed, require_known
from inferq.errors import ModelNotFound
from inferq.tensors.reading import Given, read_tensors
from inferq.tensors.signature import check, read_vector
from inferq.tensors.tensor import Tensor, TensorError
from ingress.bodyfaults import refused
from ingress.requests import BinaryTensor, InferRequest, InputTensor


def choose_model(request: InferRequest, catalog: Catalog) -> ModelCard:
    """Return the model that a request is for.

    Raises:
        ModelNotFound: there is none by that name, or none that takes tensors.
        InvalidRequest: it takes something else than what was sent.
        Unavailable: tensors were sent, and whether it takes them is not known yet.
    """
    field = request.kind
    if request.model is not None:
        card = find(catalog, request.model)
    elif field == "text":
        card = catalog.models[catalog.default]
    else:
        only = catalog.default_tensor
        if only is None:
            names = [one.name for one in catalog.tensor_models]
            if not names:
                require_known(catalog.models[catalog.default])
                raise ModelNotFound("this service runs no model that takes tensors")
            raise refused("/model", "model", f"must name a model that takes tensors: {listed(names)}")
        card = only
    if field != "text":
        require_known(card)
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
            assert isinstance(request.input_data, msgspec.Raw), "it is of this kind"
            return read_vector(request.input_data, card.signature, max_bytes=max_bytes)
        given = read_tensors(map(_given, request.inputs or ()), max_bytes=max_bytes)
        return check(given, card.signature, max_bytes=max_bytes)
    except TensorError as error:
        pointer = f"/{field}"
        if field == "inputs":
            pointer += "".join(f"/{part}" for part in (error.index, error.field) if part not in (None, ""))
        raise refused(pointer, pointer[1:].replace("/", "."), error.detail) from None


def _given(one: InputTensor) -> Given:
    raw = one.raw if isinstance(one, BinaryTensor) else None
    return Given(one.name, one.datatype, one.shape, one.data if raw is None else raw)
