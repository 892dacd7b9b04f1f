"""The operations that tell of the service itself: probes and descriptions. Pure."""

from typing import Final

from ingress.description.operation import Answer, Operation

JSON: Final = "application/json"

_NOT_MODIFIED: Final = Answer(
    status=304,
    meaning="The client has it: `If-None-Match` names this version.",
    header_fields=("ETag", "Cache-Control"),
)

ABOUT: Final = (
    Operation(
        path="/healthz",
        method="get",
        name="health",
        tag="Probes",
        summary="Whether the process is alive",
        text="Asks nobody else: a process that answers is alive, whatever is away.",
        answers=(
            Answer(
                status=200,
                meaning="It is alive.",
                media_type=JSON,
                schema="Health",
                examples=("healthy",),
            ),
        ),
    ),
    Operation(
        path="/readyz",
        method="get",
        name="readiness",
        tag="Probes",
        summary="Whether submits would be taken",
        text="Looks at Redis and the broker.",
        answers=(
            Answer(
                status=200,
                meaning="It is ready.",
                media_type=JSON,
                schema="Readiness",
                examples=("ready",),
            ),
            Answer(
                status=503,
                meaning="It is not ready; the checks say why.",
                media_type=JSON,
                schema="Readiness",
                examples=("not_ready",),
            ),
        ),
    ),
    Operation(
        path="/metrics",
        method="get",
        name="metrics",
        tag="Probes",
        summary="Metrics for Prometheus",
        text="Their names begin with `inferq_`, their units are seconds and bytes.",
        answers=(
            Answer(
                status=200,
                meaning="The metrics, in the text format of Prometheus.",
                media_type="text/plain",
                examples=("metrics",),
            ),
        ),
    ),
    Operation(
        path="/openapi.json",
        method="get",
        name="openapi",
        tag="Descriptions",
        summary="This description, for programs",
        text="OpenAPI 3.1.",
        parameters=("IfNoneMatch",),
        answers=(
            Answer(
                status=200,
                meaning="The description.",
                media_type=JSON,
                schema="OpenApi",
                header_fields=("ETag", "Cache-Control"),
            ),
            _NOT_MODIFIED,
        ),
    ),
    Operation(
        path="/asyncapi.json",
        method="get",
        name="asyncapi",
        tag="Descriptions",
        summary="What is pushed, for programs",
        text="AsyncAPI 3.0: the WebSockets of the notifier, the Server-Sent Events of this service, and all messages.",
        parameters=("IfNoneMatch",),
        answers=(
            Answer(
                status=200,
                meaning="The description.",
                media_type=JSON,
                schema="AsyncApi",
                header_fields=("ETag", "Cache-Control"),
            ),
            _NOT_MODIFIED,
        ),
    ),
    Operation(
        path="/docs",
        method="get",
        name="docs",
        tag="Descriptions",
        summary="This description, for people",
        text="One page without scripts, made from `/openapi.json`.",
        parameters=("IfNoneMatch",),
        answers=(
            Answer(
                status=200,
                meaning="The page.",
                media_type="text/html",
                header_fields=("ETag", "Cache-Control"),
            ),
            _NOT_MODIFIED,
        ),
    ),
)
