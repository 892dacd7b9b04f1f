"""What `inferq submit` says when nothing comes."""

import asyncio
from dataclasses import dataclass
from typing import cast

import pytest

import inferq.cli.submit as submit_module
from inferq import AsyncClient
from inferq.cli.sending import Sending
from inferq.cli.submit import explain_silence
from tests.fakeingress import fake_ingress
from tests.support import eventually

# How soon they answer is what they are about.
pytestmark = pytest.mark.alone

LINE = "inferq: no batcher is running, so the jobs wait: see `inferq doctor`\n"


@dataclass
class Count:
    """What a run has printed, what it waits for, and how often that was looked at."""

    printed: int = 0
    waiting: int = 1
    looks: int = 0

    @property
    def unprinted(self) -> int:
        """What it waits for."""
        self.looks += 1
        return self.waiting


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask after a moment."""
    monkeypatch.setattr(submit_module, "_SILENT_S", 0.01)


async def explained(url: str, count: Count) -> None:
    """Let it explain until it has no more to say."""
    async with AsyncClient(url, timeout_s=1.0) as client:
        await asyncio.wait_for(explain_silence(client, cast(Sending, count)), 10)


@pytest.mark.parametrize(
    ("batchers", "printed", "said"),
    [([], 0, LINE), ([{"id": "b", "state": "busy"}], 0, ""), ([], 1, "")],
    ids=["no batcher", "a slow batcher", "a result"],
)
async def test_silence_is_explained_once(
    batchers: list[object], printed: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line on standard error, nothing on standard output, and only where nobody is there to run the jobs."""
    async with fake_ingress(stats={"batchers": batchers}) as ingress:
        await explained(ingress.url, Count(printed=printed))
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", said)


async def test_without_jobs_nothing_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody who still types has sent nothing that could wait; once there is a job, it is asked."""
    count = Count(waiting=0)
    async with fake_ingress(stats={"batchers": []}) as ingress:
        explaining = asyncio.create_task(explained(ingress.url, count))
        await eventually(lambda: count.looks > 2, what="some turns of the question")
        assert not [head for head in ingress.heads if b"/v1/stats" in head]
        count.waiting = 1
        await eventually(explaining.done, what="the explanation")
        await explaining
    assert capsys.readouterr().err == LINE
