"""One run of the generator, in a process of its own: what it measures must not share an interpreter with it."""

from collections.abc import Callable
from typing import Final

import msgspec

from inferq.errors import OperatorError
from loadgen.companion import companion
from loadgen.generator.plan import Plan, check
from loadgen.generator.report import Report
from loadgen.generator.said import Progress, Said

# Making a million requests and working out their report take seconds each, reading as many records takes minutes.
SILENCE_S: Final = 900.0


async def generated(plan: Plan, *, say: Callable[[Progress], None] | None = None) -> Report:
    """Carry a plan out and return what was seen; ``say`` hears each second how far it is.

    The report's plan is the given one without its key.

    Raises:
        ConnectionError: the target is not there, or the generator failed.
        OperatorError: the plan is out of bounds.
    """
    check(plan)
    within_s = plan.schedule.seconds + plan.patience_s + SILENCE_S
    async with companion("loadgen.generator", plan) as process:
        while True:
            said = await process.hear(Said, within_s=within_s)
            if said.refused:
                raise OperatorError(said.refused)
            if said.report is not None:
                return msgspec.structs.replace(said.report, plan=msgspec.structs.replace(plan, key=""))
            if said.progress is not None and say is not None:
                say(said.progress)
