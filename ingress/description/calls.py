"""The operations of synchronous calls. Pure."""

from typing import Final

from inferq.errors import (
    BodyTooLarge,
    DeadlineUnreachable,
    InferenceFailed,
    InvalidRequest,
    ModelNotFound,
    QueueFull,
    QuotaExceeded,
    TimedOut,
    Unauthorized,
    Unavailable,
    UnsupportedMediaType,
)
from ingress.description.about import JSON
from ingress.description.operation import Answer, Operation

_TAG: Final = "Calls"
_CALL_ERRORS: Final = (
    InvalidRequest,
    Unauthorized,
    ModelNotFound,
    BodyTooLarge,
    UnsupportedMediaType,
    QuotaExceeded,
    InferenceFailed,
    QueueFull,
    DeadlineUnreachable,
    Unavailable,
    TimedOut,
)
_WAITS: Final = (
    "The job goes through the queue like any other. When the client leaves, or the time of the call is over, "
    "it is cancelled: then it costs nothing."
)


def _answer(schema: str, meaning: str, *examples: str) -> Answer:
    return Answer(status=200, meaning=meaning, media_type=JSON, schema=schema, examples=examples)


def _of_a_model(version: str) -> tuple[Operation, ...]:
    path, name = "/v2/models/{model}" + version, "Version" if version else ""
    parameters = ("Model", "ModelVersion") if version else ("Model",)
    return (
        Operation(
            path=path,
            method="get",
            name="model" + name,
            tag=_TAG,
            summary="What a model takes and gives",
            text="A free axis is -1, and so is a number of columns that the folder does not say. A model of texts "
            "takes `text`, and `text_pair` beside it where its tokenizer takes pairs. It gives `label`, `score` and "
            "`scores`; where labels hold together `labels`, best first and then empty, and `scores`; else `values`, or "
            "`embedding`. Of a default model that is not where this service is, or is still being downloaded, it is "
            "known once a batcher has its files.",
            parameters=parameters,
            answers=(_answer("ModelMetadata", "Inputs and outputs.", "model_of_tensors", "model_of_texts"),),
            errors=(Unauthorized, ModelNotFound, Unavailable),
            keyed=True,
            fault="CallFault",
        ),
        Operation(
            path=path + "/ready",
            method="get",
            name="modelReady" + name,
            tag=_TAG,
            summary="Whether a model is served",
            text="It is while a batcher has it loaded. Calls of another wait for one.",
            parameters=parameters,
            answers=(_answer("ModelReady", "A batcher has it loaded.", "model_ready"),),
            errors=(Unauthorized, ModelNotFound, Unavailable),
            keyed=True,
            fault="CallFault",
        ),
        Operation(
            path=path + "/infer",
            method="post",
            name="inferModel" + name,
            tag=_TAG,
            summary="Call a model",
            text="Tensors in, tensors out, as JSON or as bytes behind it (the protocol's binary extension). Each text "
            f"of a call is a job, and they share batches; tensors of several rows are one job. {_WAITS}",
            parameters=(*parameters, "HeaderLength", "CacheControl"),
            body="ModelCall",
            body_examples=("call_texts", "call_pairs", "call_tensors"),
            answers=(
                Answer(
                    status=200,
                    meaning="The outputs. Where some of them are bytes, these follow the JSON.",
                    media_type=JSON,
                    schema="ModelAnswer",
                    header_fields=("Inference-Header-Content-Length",),
                    examples=("called_texts", "called_tensors"),
                    binary=True,
                ),
            ),
            errors=_CALL_ERRORS,
            keyed=True,
            fault="CallFault",
        ),
    )


CALLS: Final = (
    Operation(
        path="/infer",
        method="post",
        name="infer",
        tag=_TAG,
        summary="Have one answer at once",
        text=f"A text or a row of numbers in, what the model makes of it out. {_WAITS}",
        parameters=("CacheControl",),
        body="SyncRequest",
        body_examples=("call_text", "call_pair", "call_vector"),
        answers=(_answer("SyncAnswer", "The answer.", "called_text", "called_vector"),),
        errors=_CALL_ERRORS,
        keyed=True,
    ),
    Operation(
        path="/v1/embeddings",
        method="post",
        name="embeddings",
        tag=_TAG,
        summary="Have vectors of texts",
        text=f"Shaped as OpenAI's, for embedding models. Each text is a job; they share batches. {_WAITS}",
        parameters=("CacheControl",),
        body="EmbeddingRequest",
        body_examples=("embed",),
        answers=(_answer("EmbeddingAnswer", "A vector for each text, in their order.", "embedded"),),
        errors=_CALL_ERRORS,
        keyed=True,
    ),
    Operation(
        path="/v2",
        method="get",
        name="server",
        tag=_TAG,
        summary="Which server this is",
        text="As the Open Inference Protocol V2 says, and so are all paths under `/v2`: its clients work unchanged.",
        answers=(_answer("ServerMetadata", "Name, version and extensions.", "server"),),
        fault="CallFault",
    ),
    Operation(
        path="/v2/health/live",
        method="get",
        name="live",
        tag=_TAG,
        summary="Whether the server is alive",
        text="Asks nobody else.",
        answers=(_answer("Live", "It is alive.", "live"),),
        fault="CallFault",
    ),
    Operation(
        path="/v2/health/ready",
        method="get",
        name="callsReady",
        tag=_TAG,
        summary="Whether calls would be taken",
        text="Looks at Redis and the broker.",
        answers=(_answer("Ready", "They would.", "calls_ready"),),
        errors=(Unavailable,),
        fault="CallFault",
    ),
    *_of_a_model(""),
    *_of_a_model("/versions/{version}"),
)
