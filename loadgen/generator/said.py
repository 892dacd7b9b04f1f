"""What the generator's process says: each second how far it is, and at the end its report."""

import msgspec

from loadgen.generator.report import Report


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """What has come of the whole run by a second of it, the warm-up included."""

    at_s: int
    sent: int
    accepted: int
    ended: int
    failed: int


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """One of them; ``refused`` says what of a plan is out of bounds."""

    progress: Progress | None = None
    report: Report | None = None
    refused: str = ""
