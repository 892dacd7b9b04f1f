"""Rounds of ours and of peers, and the report: what `make bench-peers` runs."""

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from inferq.cpus import available_cpus
from inferq.errors import OperatorError, first_line, first_of
from loadgen.bareloops import tokenised
from loadgen.childwork import ask, said
from loadgen.figures import Figure
from loadgen.peers.answers import Asked, Known, folder_of
from loadgen.peers.judging import judged
from loadgen.peers.measuring import Effort, Task, our_arm, peer_arm
from loadgen.peers.roster import Peer
from loadgen.peers.rounds import SHARES, SIMPLE, Arm, Outcome, Round, best_simple, our_name, turned
from loadgen.peers.servers.order import Order
from loadgen.peers.story import ASKED, sections
from loadgen.reports.document import Document
from loadgen.reports.environment import environment, model_of
from loadgen.reports.files import write
from loadgen.saturation import bare
from loadgen.texts import dealt

ROWS: Final = 16
CHECKED_TEXTS: Final = 48
VERSIONS_WITHIN_S: Final = 30.0
ANSWERS_WITHIN_S: Final = 120.0
# One line of JSON: the versions of the distributions that it is called with, those that are installed.
_VERSIONS: Final = """
import json, sys
from importlib import metadata
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


@dataclass(kw_only=True)
class Bench:
    """One run: ``models`` by kind, ``peers`` by name with the interpreter that they run in; lines go to ``say``.

    ``workers`` of a peer share the cores' threads.
    """

    models: Mapping[str, str]
    peers: Mapping[str, Peer]
    brokers: Sequence[str]
    python: Path
    effort: Effort
    rounds: int
    say: Callable[[str], None]
    show: Callable[[list[Figure]], None]
    workers: int = 1
    spin: bool = False

    async def run(self) -> tuple[list[Outcome], dict[str, dict[str, str]]]:
        """Measure each model in turn; return the outcomes and the versions of each peer.

        Raises:
            OperatorError: the peers' environment or a model is not there.
            ConnectionError: the bare loops failed.
        """
        versions = await self.versions()
        outcomes = []
        for kind, model in self.models.items():
            outcome = await self._outcome(kind, model, versions)
            self.show(judged(outcome))
            outcomes.append(outcome)
        return outcomes, versions

    async def versions(self) -> dict[str, dict[str, str]]:
        """Return the versions of each peer's distributions; raises `OperatorError` without an environment."""
        names = sorted({name for peer in self.peers.values() for name in peer.distributions})
        if not self.python.exists():
            raise OperatorError(f"there is no {self.python}: make bench-peers makes the peers' environment")
        out = await said([str(self.python), "-c", _VERSIONS, *names], within_s=VERSIONS_WITHIN_S)
        known = msgspec.json.decode(out, type=dict[str, str])
        return {
            name: {one: known[one] for one in peer.distributions if one in known}
            for name, peer in self.peers.items()
        }

    async def _outcome(self, kind: str, model: str, versions: Mapping[str, Mapping[str, str]]) -> Outcome:
        folder = folder_of(model)
        texts = list(dealt(CHECKED_TEXTS))
        known = await ask(
            "loadgen.peers.answers", Asked(model=model, texts=texts), Known, within_s=ANSWERS_WITHIN_S
        )
        order = Order(
            folder=str(folder.path.resolve()),
            labels=folder.labels,
            max_length=folder.max_length,
            pad_id=tokenised(folder, [])[1],
            threads=max(1, available_cpus() // self.workers),
            workers=self.workers,
            rows=ROWS,
            port=0,
            wait_ms=0,
            spin=self.spin,
        )
        loop, rate, rates = "", 0.0, {}
        rounds: list[Round] = []
        names = [*(our_name(broker) for broker in self.brokers), *self.peers]
        for number in range(self.rounds):
            loops = await bare(model, seconds=self.effort.seconds, loops=SIMPLE)
            seen = {name: one.texts_per_s for name, one in loops.loops.items()}
            if not rounds:
                loop, rate = best_simple(seen)
                rates = {share: share * rate for share in SHARES}
            told = ", ".join(f"{name} {value:.0f} texts/s" for name, value in seen.items())
            self.say(f"{kind}, round {number + 1} of {self.rounds}: bare loops {told}")
            task = Task(
                model=model,
                order=order,
                rates=rates,
                effort=self.effort,
                seed=number,
                texts=texts,
                known=known.scores,
                say=self.say,
            )
            arms: dict[str, Arm] = {}
            failed: dict[str, str] = {}
            for name in turned(names, number):
                try:
                    arms[name] = await self._arm(name, task, versions)
                except* (OperatorError, OSError, TimeoutError) as error:
                    failed[name] = first_line(first_of(error))
                    self.say(f"  {name} failed: {failed[name]}")
            # In the order in which they are named, whatever the order of the round.
            arms = {name: arms[name] for name in names if name in arms}
            rounds.append(Round(bare=seen, arms=arms, failed=failed))
        return Outcome(kind=kind, loop=loop, rate=rate, rounds=rounds)

    async def _arm(self, name: str, task: Task, versions: Mapping[str, Mapping[str, str]]) -> Arm:
        for broker in self.brokers:
            if name == our_name(broker):
                return await our_arm(broker, task)
        peer = self.peers[name]
        missing = [one for one in peer.distributions if one not in versions[name]]
        if missing:
            raise OperatorError(f"{', '.join(missing)} not installed in the peers' environment")
        return await peer_arm(peer, task, python=self.python)


def report(
    outcomes: Sequence[Outcome],
    versions: Mapping[str, Mapping[str, str]],
    *,
    words: Sequence[str],
    began: datetime,
    about: Mapping[str, str],
    folder: Path,
) -> Path:
    """Write the report and return its page; ``words`` are the command's, ``about`` is what it ran on."""
    document = Document(
        title="Ours beside other servers",
        asked=ASKED,
        command=shlex.join(words),
        began_at=began.isoformat(timespec="seconds"),
        environment=about,
        sections=sections(outcomes, versions),
        data={"outcomes": msgspec.to_builtins(list(outcomes)), "versions": dict(versions)},
    )
    return write(document, folder, "peers")


def surroundings(models: Mapping[str, str]) -> dict[str, str]:
    """Return what is about to be measured on, and with which models by kind; raises `OperatorError` without one."""
    about = environment()
    for kind, model in models.items():
        about |= {f"{kind}: {name}": value for name, value in model_of(model, "fp32").items()}
    return about


def now() -> datetime:
    """Return the time of day, for a report."""
    return datetime.now(UTC)


def say(text: str) -> None:
    """Write a line of progress."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
