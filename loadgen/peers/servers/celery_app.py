"""`celery -A loadgen.peers.servers.celery_app worker`: the model behind Celery with celery-batches.

Results go to Redis, whatever the broker is: that backend announces each, so that nobody has to ask.
"""

from typing import Any, Final

from celery import Celery, signals
from celery_batches import Batches, SimpleRequest

from loadgen.peers.servers.model import Classifier
from loadgen.peers.servers.order import ordered

ORDER = ordered()
TASK: Final = "classify"
RESULT_S: Final = 300

app = Celery("peer", broker=ORDER.broker_url, backend=ORDER.results_url)
app.conf.update(
    task_default_queue="peer",
    # None is the least that celery-batches works with well: a batch must fit in what is fetched beforehand.
    worker_prefetch_multiplier=4 * ORDER.rows,
    result_expires=RESULT_S,
    worker_send_task_events=False,
    task_send_sent_event=False,
    broker_connection_retry_on_startup=True,
)
_loaded: list[Classifier] = []


@signals.worker_process_init.connect
def load(**_: Any) -> None:
    """Load the model in the process that runs it."""
    _loaded.append(Classifier(ORDER))


@app.task(base=Batches, name=TASK, flush_every=ORDER.rows, flush_interval=ORDER.wait_ms / 1000)
def classify(requests: list[SimpleRequest]) -> None:
    """Answer a batch."""
    answers = _loaded[0]([request.args[0] for request in requests])
    for request, answer in zip(requests, answers, strict=True):
        app.backend.mark_as_done(request.id, answer)
