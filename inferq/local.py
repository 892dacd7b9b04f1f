"""The whole pipeline on this machine: what `inferq up`, `inferq demo` and the acceptance tests run.

Servers come first (an embedded Valkey, a private RabbitMQ, each only where no URL names one), then notifier,
batchers and ingress, each in a process of its own; the end goes the other way round. Whatever dies in between is
started again on its old port.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from inferq import runfile
from inferq.addresses import host_port
from inferq.awaycures import away_cures
from inferq.childprocess import inherited_env, our_child
from inferq.errors import OperatorError, first_of
from inferq.folderlock import FolderLock
from inferq.modelspec import ModelKind
from inferq.modelspec import parse as parse_model
from inferq.modelsroot import from_anywhere, read_catalog
from inferq.placement import Place, places
from inferq.ports import claim_shared_port
from inferq.probe import reachable
from inferq.rabbitnode import PrivateRabbit
from inferq.servicechild import OnLine, ServiceChild, service_argv
from inferq.settings import Settings, require_servers, to_environ, with_values
from inferq.startports import checked_ports, port_cure, with_free_ports
from inferq.summing import SUMMING_VARIABLES, empty_folder
from inferq.supervisor import Child, ChildState, Stuck, Supervisor, never
from inferq.valkey import EmbeddedValkey
from inferq.webhooks.secretkeeper import kept_secret

VALKEY: Final = "valkey"
RABBITMQ: Final = "rabbitmq"
COUNTS: Final = "ingress-metrics"

_READY_WITHIN_S: Final = 90.0
# A model from the hub may have to come over the network first.
_HUB_READY_WITHIN_S: Final = 1_800.0
_VALKEY_READY_WITHIN_S: Final = 30.0
# RabbitMQ 3.10 confirms a quorum queue, and messages in it, some seconds before it is in its register.
_ON_DISK_WITHIN_S: Final = 15.0
_POLL_S: Final = 0.1


@dataclass(frozen=True, kw_only=True)
class Urls:
    """Where a running pipeline is reached; ``management`` is the private RabbitMQ's, with user and password.

    However many ingresses there are, ``metrics`` has one address for them. ``serving`` names each batcher's model.
    """

    api: str
    notifier: str
    metrics: Mapping[str, str]
    serving: Mapping[str, str] = field(default_factory=dict)
    management: str | None = None
    management_user: str = ""
    management_password: str = field(default="", repr=False)


class LocalPipeline:
    """Servers and services as child processes, kept alive between `start` and `stop`.

    ``say`` takes progress and every death, one line each; ``on_line`` takes each line that a service writes, with
    the service's name. With ``ports_auto`` the services listen on free ports, else on those of the settings.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        state_dir: Path,
        ports_auto: bool = False,
        say: Callable[[str], None] = lambda text: None,
        on_line: OnLine = lambda name, line: None,
    ) -> None:
        self._wanted = settings
        self._models: list[str] = []
        self._state_dir = state_dir.absolute()
        self._ports_auto = ports_auto
        self._say = say
        self._on_line = on_line
        self._lock = FolderLock(self._state_dir, other="choose another folder with --state")
        self._stack = AsyncExitStack()
        self._supervisors: dict[str, Supervisor] = {}
        self._services: list[ServiceChild] = []
        self._serving: dict[str, str] = {}
        self._keeping: list[asyncio.Task[None]] = []
        self._rabbit: PrivateRabbit | None = None
        self._settings: Settings | None = None

    @property
    def settings(self) -> Settings:
        """The settings as they came out: with every server's URL and port."""
        if self._settings is None:
            raise RuntimeError("not started")
        return self._settings

    @property
    def children(self) -> Mapping[str, ChildState]:
        """Every child by name: valkey, rabbitmq, notifier, batcher-1, …, ingress, or of several ingress-1, …."""
        return {name: supervisor.state for name, supervisor in self._supervisors.items()}

    @property
    def urls(self) -> Urls:
        """Where it is reached."""
        settings, rabbit = self.settings, self._rabbit
        bases = {
            service.name: f"http://{host_port(service.host, service.port)}"
            for service in self._services
            if not service.name.startswith("ingress")
        }
        api = f"http://{host_port(reachable(settings.host), settings.ingress_port)}"
        user, password = ("", "") if rabbit is None else rabbit.management_credentials
        return Urls(
            api=api,
            notifier=settings.stream_url,
            metrics={name: f"{base}/metrics" for name, base in {**bases, "ingress": api}.items()},
            serving=self._serving,
            management=None if rabbit is None else rabbit.management_url,
            management_user=user,
            management_password=password,
        )

    async def start(self) -> None:
        """Start everything and return once all of it is ready.

        Raises:
            OperatorError: something cannot start; what had been started is stopped again.
        """
        try:
            self._lock.acquire()
            self._stack.callback(self._lock.release)
            # A model that cannot be served is refused before anything is started.
            self._models = list(read_catalog(self._wanted).models)
            settings = self._wanted if self._ports_auto else checked_ports(self._wanted)
            if not settings.webhook_secret:
                settings = with_values(settings, webhook_secret=kept_secret(self._state_dir))
            settings = require_servers(await self._start_servers(settings))
            if self._ports_auto:
                settings = with_free_ports(settings)
            self._settings = settings
            await self._start_services(settings)
        except BaseException:
            await self.stop()
            raise

    async def serve(self) -> None:
        """Run until cancelled; returns only by raising what went wrong in here."""
        await asyncio.gather(*self._keeping)

    async def stop(self) -> None:
        """Stop everything in order, ingress first and servers last, each in bounded time."""
        self.retire()
        for task in self._keeping:
            task.cancel()
        if self._keeping:
            await asyncio.wait(self._keeping)
        self._keeping.clear()
        await self._stack.aclose()

    def retire(self) -> None:
        """Start nothing again that dies: it is about to be stopped."""
        for supervisor in self._supervisors.values():
            supervisor.retire()

    def kill(self) -> None:
        """Kill every child now; `stop` then ends at once."""
        self.retire()
        for supervisor in self._supervisors.values():
            pid = supervisor.child.pid
            if pid is not None and our_child(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    async def _start_servers(self, settings: Settings) -> Settings:
        if not settings.redis_url:
            valkey = EmbeddedValkey(self._state_dir / VALKEY, ready_within_s=_VALKEY_READY_WITHIN_S)
            await self._start_server(VALKEY, valkey)
            self._say(f"Valkey is up on port {valkey.port}")
            settings = with_values(settings, redis_url=valkey.url)
        if settings.broker_url == RABBITMQ:
            self._rabbit = PrivateRabbit(self._state_dir / RABBITMQ, on_progress=self._say)
            await self._start_server(RABBITMQ, self._rabbit)
            settings = with_values(
                settings,
                broker_url=self._rabbit.url,
                broker_ui_url=settings.broker_ui_url or self._rabbit.management_url,
            )
        return settings

    async def _start_server(self, name: str, server: Child) -> None:
        self._supervise(name, server)
        self._stack.push_async_callback(server.stop)
        await server.start()
        self._keep(name)

    async def _start_services(self, settings: Settings) -> None:
        counts = self._state_dir / COUNTS
        if settings.ingresses > 1:
            claim = claim_shared_port(settings.ingress_port, settings.host, cure=port_cure("ingress_port"))
            self._stack.callback(claim.close)
            empty_folder(counts)
        groups = places(settings, models=self._models, ports_auto=self._ports_auto, counts=counts)
        for group in [[self._service(place) for place in group] for group in groups]:
            self._stack.push_async_callback(_stop_together, group)
            for service in group:
                await service.start()
        self._say(f"starting {', '.join(service.name for service in self._services)}")
        await self._ready(settings)
        for service in self._services:
            self._keep(service.name)
        await self._kept_queues(settings)
        self._stack.callback(runfile.remove, self._state_dir)
        runfile.write(
            self._state_dir,
            environ=to_environ(from_anywhere(settings)),
            services=[
                runfile.RunningService(name=service.name, host=service.host, port=service.port)
                for service in self._services
            ],
        )

    def _service(self, place: Place) -> ServiceChild:
        service = ServiceChild(
            place.name,
            service_argv(place.module),
            env=_environ(place),
            host=place.host,
            port=place.port,
            record=self._state_dir / f"{place.name}.pid",
            on_line=self._on_line,
            cures=away_cures(self._wanted),
        )
        self._services.append(service)
        if place.module == "batcher":
            self._serving[place.name] = place.settings.served
        self._supervise(place.name, service, service.stuck)
        return service

    async def _ready(self, settings: Settings) -> None:
        from_hub = parse_model(settings.model).kind is ModelKind.HUB
        try:
            async with asyncio.TaskGroup() as group:
                for service in self._services:
                    slow = from_hub and service.name.startswith("batcher")
                    within_s = _HUB_READY_WITHIN_S if slow else _READY_WITHIN_S
                    group.create_task(self._one_ready(service, within_s))
        except* OperatorError as errors:
            raise first_of(errors) from None

    async def _one_ready(self, service: ServiceChild, within_s: float) -> None:
        await service.ready(within_s, self._say)
        self._say(f"{service.name} is ready on port {service.port}")

    async def _kept_queues(self, settings: Settings) -> None:
        """Wait until a kill of the private RabbitMQ would not cost its queues, within a bound."""
        rabbit, begun = self._rabbit, time.monotonic()
        queues = settings.names.queues(*self._models)
        if rabbit is None or all(map(rabbit.has_on_disk, queues)):
            return
        self._say("waiting for RabbitMQ to have its queues on disk")
        while time.monotonic() - begun < _ON_DISK_WITHIN_S:
            await asyncio.sleep(_POLL_S)
            if all(map(rabbit.has_on_disk, queues)):
                return
        self._say("RabbitMQ does not have its queues on disk yet; a kill of it now might lose them")

    def _supervise(self, name: str, child: Child, stuck: Stuck = never) -> None:
        self._supervisors[name] = Supervisor(name, child, say=self._say, stuck=stuck)

    def _keep(self, name: str) -> None:
        self._keeping.append(asyncio.create_task(self._supervisors[name].keep(), name=f"keep-{name}"))


def _environ(place: Place) -> dict[str, str]:
    """Return our environment with what this service is told in place of our own settings."""
    return inherited_env(*SUMMING_VARIABLES) | to_environ(place.settings) | dict(place.environ)


async def _stop_together(children: list[ServiceChild]) -> None:
    async with asyncio.TaskGroup() as group:
        for child in children:
            group.create_task(child.stop())
