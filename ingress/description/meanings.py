"""What each field of the API's types means, by type and field. Pure.

The types say what a field is, and their limits; this says in words what it is for. Tests see that no field lacks its
line, and that no line lacks its field.
"""

from collections.abc import Mapping
from typing import Final

from ingress.description.callmeanings import CALL_FIELDS

_WHERE: Final = {
    "job_id": "Names the job from now on.",
    "status": "`queued`, or `done` at once where the answer was in the cache.",
    "status_url": "Where to poll the record, relative to this server.",
    "stream_url": "A WebSocket that sends the final record as one JSON text frame and closes.",
}
_PROBLEM: Final = {
    "type": "A URI of the kind of problem; `about:blank` says that `title` and `code` tell all.",
    "title": "What kind of problem it is, for people; the same for each occurrence.",
    "status": "The status code of the answer.",
    "code": "What kind of problem it is, for programs: stable, and all that a client should decide by.",
    "detail": "What is wrong this time, and what is allowed. It quotes nothing of a text or a key.",
    "errors": "The faults of a request that is not valid; on other problems it is absent.",
    "error": "The same as OpenAI's clients look for it: at `/v1/embeddings` alone.",
}
_JOBS: Final = "One entry for each input, in their order: the job, or why there is none."

_FRAME: Final = {
    "job_id": "Names the job.",
    "seq": "That of the record: with `job_id` it tells a frame that comes again.",
}

FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    **CALL_FIELDS,
    "InferRequest": {
        "text": "The text. Limits count code points; white space alone is refused. For a text model.",
        "text_pair": "The second text of a pair, for a model whose tokenizer takes two; for any other it is refused. "
        "What is too long for the model is cut, the longer text first.",
        "inputs": "The graph's inputs, as the Open Inference Protocol writes them. For a tensor model.",
        "input_data": "One row of numbers, for a model with one input of floats that has one axis beside the batch's.",
        "model": "The model to run; absent or null is the default one, or for tensors the only one that takes them. "
        "One that there is not is a 404.",
        "deadline_ms": "Milliseconds from acceptance after which nobody wants the result: the job then expires. "
        "Absent or null: it waits as long as it takes. Written without fraction or exponent.",
        "priority": "Which queue the job waits in.",
        "webhook": "A URL that is told of the job's end by a POST: https, and public unless the operator lists its "
        "host. Absent or null: the API key's own, if it has one. Empty: none, not even that.",
    },
    "InputTensor": {
        "name": "The input's name in the graph.",
        "datatype": "What its values are.",
        "shape": "The length of each axis; the first one is the number of rows.",
        "data": "Its values: a flat list, the last axis fastest, or lists nested as the shape is. Numbers for floats, "
        "whole numbers for integers, true and false for BOOL.",
    },
    "BatchRequest": {
        "inputs": "The requests. Each is judged by itself: one that is wrong costs the others nothing.",
    },
    "Accepted": _WHERE,
    "AcceptedItem": {"index": "Which input it is, counted from 0.", **_WHERE},
    "RefusedItem": {
        "index": "Which input it is, counted from 0.",
        "error": "Why it did not become a job.",
    },
    "BatchAnswer": {
        "jobs": _JOBS,
        "accepted": "How many inputs became jobs.",
        "refused": "How many did not.",
    },
    "BatchRefused": {
        **_PROBLEM,
        "jobs": _JOBS,
        "accepted": "How many inputs became jobs: none.",
        "refused": "How many did not: all.",
    },
    "Problem": _PROBLEM,
    "OpenAiError": {
        "message": "What is wrong, for people: the problem's title and detail.",
        "type": "Whose fault it is, in OpenAI's words.",
        "param": "The field that is wrong; null where it is none.",
        "code": "That of the problem.",
    },
    "Fault": {
        "pointer": "JSON pointer to the place in the body; empty for the body as a whole, a parameter or a header.",
        "detail": "What is allowed there.",
    },
    "JobRecord": {
        "job_id": "Names the job.",
        "status": "Where the job is in its life.",
        "seq": "Raised by one with every change; 1 when the job was accepted.",
        "model": "The model that runs it.",
        "result": "The answer of a job that is done, otherwise null.",
        "error": "Why a job failed, otherwise null.",
        "cached": "Whether the result was taken from a cache, without a run.",
        "attempt": "How often a batcher has started it; 0 until then.",
        "deadline_at": "When it expires, by its own deadline; null without one.",
        "created_at": "When it was accepted.",
        "started_at": "When a batcher last started it; null until then.",
        "finished_at": "When it ended; null until then.",
        "timings_ms": "Where its time went; null until it is done.",
        "batch": "The batch that it ran in; null until then, and where no run was needed.",
        "webhook": "What became of its webhook; absent where there is none.",
    },
    "WebhookState": {
        "state": "Whether it still has to be delivered, is delivered, or is given up.",
        "attempts": "How often it was tried.",
        "last_status": "What the receiver answered to the last try; null without an answer.",
        "last_error": "What was wrong with the last try; null until there was one, and after a delivery.",
        "next_at": "When it is tried next; null but between two tries.",
    },
    "JobError": {
        "code": "Why, for programs.",
        "detail": "Why, for people.",
    },
    "Timings": {
        "queue_wait": "From acceptance until a batcher had it.",
        "batch_wait": "From there until its batch closed.",
        "tokenize": "Making tokens of the text, or checking the tensors.",
        "inference": "The run of its batch; of a job that was answered from a batcher's cache, the look-up.",
        "store": "From the end of the run until the result was stored.",
        "total": "From acceptance until the result was stored.",
    },
    "BatchInfo": {
        "id": "Names the batch.",
        "size": "How many jobs it had.",
        "tokens": "Tokens of all its texts together, or rows of all its tensors.",
        "padded_tokens": "Tokens that were run, padding included; of tensors the rows again.",
        "close_reason": "Why it closed: `full`, `window`, `greedy`, `slo`, `tokens`, `drain` or `split`.",
        "batcher": "The process that ran it.",
    },
    "Result": {
        "label": "The best label.",
        "score": "Its probability.",
        "scores": "The probability of each label.",
        "truncated": "Whether the text was longer than the model takes, and was cut.",
    },
    "LabelsResult": {
        "labels": "The labels that hold, best first; there may be none.",
        "scores": "The probability of each label by itself; they need not sum to 1.",
        "truncated": "Whether the text was longer than the model takes, and was cut.",
    },
    "ValuesResult": {
        "values": "The model's number for each label; it is no probability.",
        "truncated": "Whether the text was longer than the model takes, and was cut.",
    },
    "Embedding": {
        "embedding": "The text as a vector: one number for each dimension.",
        "truncated": "Whether the text was longer than the model takes, and was cut.",
    },
    "TensorOutputs": {"outputs": "Each output of the graph, in its order."},
    "OutputTensor": {
        "name": "Its name in the graph.",
        "datatype": "What its values are.",
        "shape": "The length of each axis.",
        "data": "Its values as a flat list, the last axis fastest.",
    },
    "Statistics": {
        "queue": "The jobs that wait.",
        "batchers": "The living batchers, by id.",
        "batches": "What the living batchers have run since they started, summed.",
        "cache": "Lookups of results since the living processes started, summed.",
        "routing": "How jobs come to batchers.",
        "latency_ms": "Times of the last ten seconds, over all living batchers.",
        "breakers": "The circuit breakers of the living processes.",
    },
    "Breaker": {
        "name": "What it leads to: `engine` is a batcher's, `redis` and `broker` an ingress's.",
        "node": "The process that has it.",
        "state": "`closed` lets calls through, `open` none, `half_open` a few to see.",
        "failures": "Failures that counted, since the process started; those of calls that failed together are one.",
        "successes": "Successes that counted, since the process started.",
        "opened": "How often it opened.",
        "half_open_in_s": "How long it stays open; 0 when it is not.",
    },
    "Overview": {
        "total_workers": "How many batchers live.",
        "circuit_breakers": "The circuit breakers of the living processes.",
    },
    "NodeBreaker": {
        "node": "A batcher's id; or an ingress's, a slash, and what it leads to.",
        "state": "`closed` lets calls through, `open` none, `half_open` a few to see.",
        "failures": "Failures that counted, since the process started.",
        "successes": "Successes that counted, since the process started.",
    },
    "LatencyFigures": {
        "queue_wait": "From acceptance until a batcher had the job.",
        "inference": "How long the model took for a batch.",
        "total": "From acceptance until the result was stored.",
    },
    "Percentiles": {
        "count": "How many times were taken.",
        "p50": "Half of them are not above this.",
        "p90": "Nine in ten are not above this.",
        "p99": "99 in a hundred are not above this.",
    },
    "QueueFigures": {
        "depth": "Jobs that wait.",
        "models": "Of each model; null where they are not told apart, as with shards on RabbitMQ.",
        "dead": "Dead letters.",
        "arrival_rate": "Jobs queued a second, over the last ten.",
        "drain_rate": "Jobs ended a second, over the last ten.",
    },
    "BatcherFigures": {
        "id": "Names the process.",
        "model": "What it runs.",
        "device": "What it runs on.",
        "fallback_reason": "Why that is not the device that was asked for, otherwise null.",
        "precision": "Which precision the model has.",
        "layout": "How the engine runs batches; empty until it is ready.",
        "state": "What it does at the moment.",
        "last_progress_s": "Seconds since it last got on.",
        "shards": "The shards that it consumes; none where routing is shared.",
        "cache": "Its own cache since it started.",
    },
    "CacheFigures": {
        "hits": "Lookups that found a result.",
        "misses": "Lookups that did not.",
        "size": "Results that it keeps.",
        "hit_rate": "Hits over lookups; null before any.",
        "hit_us": "Mean time of a lookup that found a result, in microseconds; null before any.",
    },
    "RoutingFigures": {
        "routing": "`hash`: equal inputs go to one batcher; `shared`: any batcher takes any job.",
        "shards": "How many shards jobs are spread over; 1 where routing is shared.",
        "unowned": "Shards that no living batcher has, by model.",
    },
    "BatchTotals": {
        "count": "Batches.",
        "jobs": "Jobs in them.",
        "size_histogram": "Batches by how many jobs they had.",
        "close_reasons": "Batches by why they closed.",
        "tokens": "Tokens of all texts.",
        "padded_tokens": "Tokens that were run, padding included.",
        "expired": "Jobs that expired before they ran.",
        "splits": "Batches that failed and were run again in parts.",
        "engine_restarts": "How often an engine had to be started again.",
        "predicted_ms": "What the cost model said that all batches take.",
        "inference_ms": "What they took.",
        "window_age_ms": "How long the oldest job of each had been in the window, summed.",
    },
    "CacheTotals": {
        "hits": "Lookups that found a result.",
        "misses": "Lookups that did not.",
    },
    "JobFrame": {
        **_FRAME,
        "type": "`snapshot` shows the record as it was found; any other names its status, with `job.` before it.",
        "job": "The record.",
    },
    "FinalFrame": {
        **_FRAME,
        "type": "The final state, with `job.` before it.",
        "job": "The final record.",
    },
    "ErrorFrame": {
        "type": "Always `error`.",
        "code": "What is wrong, for programs.",
        "detail": "What is wrong, for people.",
        "job_id": "The job that it is about; absent where it is about none.",
    },
    "StreamedEvent": {
        "event": "The type of the frame.",
        "data": "The frame, as JSON.",
        "id": "The `seq` of the frame; an error has none.",
        "retry": "On the first event: in how many milliseconds to come back after the stream has ended.",
    },
    "OpenApi": {
        "openapi": "The version of OpenAPI that it is written in.",
        "info": "What is described.",
        "paths": "The operations, by path and method.",
    },
    "AsyncApi": {
        "asyncapi": "The version of AsyncAPI that it is written in.",
        "info": "What is described.",
        "channels": "Where messages come and go.",
    },
    "Readiness": {
        "status": "`ready` when every check is ok.",
        "checks": "Each part that it needs: `ok`, or what is wrong.",
        "models_without_batcher": "Where there are several models, those that no living batcher serves: their jobs "
        "wait.",
        "unowned_shards": "Under hash routing, the shards that no living batcher has, by model; their jobs wait.",
    },
    "Health": {
        "status": "Always `ok`: who answers is alive.",
    },
}
