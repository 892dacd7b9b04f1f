"""Where each service of a local pipeline listens, and what its process is told beside the common settings.

Each model has as many batchers as the settings say. The first has the port of the settings, further ones take free
ones. One ingress is asked on the port of the API. Several share that port, so whoever asks there cannot choose which of
them answers; each then also has a probe port on loopback, and all of them the folder in which their metrics are summed.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from inferq.cpus import available_cpus
from inferq.ports import LOOPBACK, free_ports, next_free_port
from inferq.settings import Settings, with_values
from inferq.summing import SUMMED_IN


@dataclass(frozen=True, kw_only=True)
class Place:
    """A service by name: its module, its settings, and the address where it alone answers its probes."""

    name: str
    module: str
    host: str
    port: int
    settings: Settings
    environ: Mapping[str, str] = field(default_factory=dict)


def places(
    settings: Settings, *, models: Sequence[str] = (), ports_auto: bool, counts: Path
) -> list[list[Place]]:
    """Return the services in groups, in the order of their start; several ingresses sum their metrics in ``counts``.

    ``models`` names every model, the default one first; without it there is that one alone.

    Raises:
        OperatorError: there are not enough free ports.
    """
    host, taken = settings.host, {settings.ingress_port, settings.notifier_port, settings.batcher_port}
    served = [model for model in models or [settings.model_name] for _ in range(settings.batchers)]
    batcher_ports = [settings.batcher_port]
    if ports_auto:
        batcher_ports += _spare(len(served) - 1, host, taken)
    else:
        batcher_ports += _next(len(served) - 1, settings.batcher_port, host, taken)
    notifier = Place(
        name="notifier", module="notifier", host=host, port=settings.notifier_port, settings=settings
    )
    batchers = [
        Place(
            name=f"batcher-{number}",
            module="batcher",
            host=host,
            port=port,
            settings=_batcher_settings(settings, port, model, beside=len(served)),
        )
        for number, (port, model) in enumerate(zip(batcher_ports, served, strict=True), start=1)
    ]
    return [[notifier], batchers, _ingresses(settings, taken | set(batcher_ports), counts)]


def _ingresses(settings: Settings, taken: Collection[int], counts: Path) -> list[Place]:
    if settings.ingresses == 1:
        name, port = "ingress", settings.ingress_port
        return [Place(name=name, module="ingress", host=settings.host, port=port, settings=settings)]
    if settings.probe_port:
        more = settings.ingresses - 1
        ports = [settings.probe_port, *_next(more, settings.probe_port, LOOPBACK, taken)]
    else:
        ports = _spare(settings.ingresses, LOOPBACK, taken)
    return [
        Place(
            name=f"ingress-{number}",
            module="ingress",
            host=LOOPBACK,
            port=port,
            settings=with_values(settings, probe_port=port),
            environ={SUMMED_IN: str(counts)},
        )
        for number, port in enumerate(ports, start=1)
    ]


def _batcher_settings(settings: Settings, port: int, model: str, *, beside: int) -> Settings:
    """Return what a batcher is told: it takes calls under the keys of the others, and signs nothing.

    It has its part of the cores of all ``beside``, whatever model they serve. That is said in threads: how many
    batchers there are for each model it has to know as it is, for the GPU's memory and the shards.
    """
    return with_values(
        settings,
        batcher_port=port,
        webhook_secret="",
        serves="" if model == settings.model_name else model,
        threads=settings.threads or max(1, available_cpus() // beside),
    )


def _spare(count: int, host: str, taken: Collection[int]) -> list[int]:
    # More than are needed, since some may be among those given out already.
    found = free_ports(count + len(taken), host) if count else []
    return [port for port in found if port not in taken][:count]


def _next(count: int, after: int, host: str, taken: Collection[int]) -> list[int]:
    found: list[int] = []
    for _ in range(count):
        after = next_free_port(after + 1, host, skip=taken)
        found.append(after)
    return found
