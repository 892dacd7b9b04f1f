"""A pipeline that asks for API keys, and the commands beside it."""

import json

import httpx
import psutil
import pytest

from tests.acceptance.conftest import StartPipeline
from tests.acceptance.running import Ended, Up, command

ALICE, ROOT = "alice-0123456789", "root-0123456789a"


@pytest.fixture
def up(start_pipeline: StartPipeline) -> Up:
    """A pipeline with two keys: a caller's with quotas, and an admin's."""
    return start_pipeline(api_keys=f"alice:{ALICE}:rate=20:jobs=5,root:{ROOT}:admin")


async def asked(up: Up, *argv: str, key: str, stdin: str = "") -> Ended:
    """Run a command with a key and no other settings."""
    return await command(*argv, "--state", str(up.state_dir), settings={"api_key": key}, stdin=stdin)


async def test_commands_beside_it_just_work(up: Up) -> None:
    """They find a key where the pipeline wrote down its settings; a URL that is given gets none, and says the cure."""
    ended = await up.command("submit", "--json", "good")
    assert ended.code == 0, ended.err
    record = json.loads(ended.out)
    assert record["status"] == "done"
    assert (await up.command("stats")).code == 0
    assert (await up.command("doctor")).code == 0
    assert "keys       2 may call, with the header Authorization: Bearer <key>\n" in up.out
    for argv in (("submit", "a", "b", "c"), ("job", record["job_id"]), ("stats",)):
        ended = await command(*argv, "--url", up.api)
        assert ended.code == 2
        assert ended.out == ""
        (line,) = ended.err.splitlines()
        assert line.startswith(f"inferq: {up.api} asks for an API key: set INFERQ_API_KEY to ")


async def test_each_key_sees_its_own_jobs_and_keeps_to_its_quotas(up: Up) -> None:
    """More texts than the quotas let in at once all get through; another key's job is unknown."""
    ended = await asked(
        up, "submit", "--json", "-", key=ALICE, stdin="\n".join(f"text {number}" for number in range(40))
    )
    assert ended.code == 0, ended.out
    records = [json.loads(line) for line in ended.out.splitlines()]
    assert [record["status"] for record in records] == ["done"] * 40
    hers = records[0]["job_id"]
    theirs = json.loads((await asked(up, "submit", "--json", "good", key=ROOT)).out)["job_id"]
    assert (await asked(up, "job", hers, key=ALICE)).code == 0
    assert (await asked(up, "job", hers, key=ROOT)).code == 0
    ended = await asked(up, "job", theirs, key=ALICE)
    assert ended.code == 1
    assert ended.err.startswith("inferq: not_found: ")


async def test_answers_tell_the_quotas(up: Up) -> None:
    """On 202 and on 429, which says when to come back; without a key 401 says how to give one."""
    async with httpx.AsyncClient(base_url=up.api, trust_env=False) as client:
        nobody = await client.post("/v1/infer", json={"text": "good"})
        assert (nobody.status_code, nobody.json()["code"]) == (401, "unauthorized")
        assert nobody.headers["WWW-Authenticate"].startswith("Bearer")
        batch = {"inputs": [{"text": f"text {number}"} for number in range(6)]}
        bearer = {"Authorization": f"Bearer {ALICE}"}
        refused = await client.post("/v1/infer/batch", json=batch, headers=bearer)
        assert (refused.status_code, refused.json()["code"]) == (429, "quota_exceeded")
        assert "6 at once can never pass" in refused.json()["detail"]
        assert int(refused.headers["Retry-After"]) >= 1
        accepted = await client.post("/v1/infer", json={"text": "good"}, headers=bearer)
        assert accepted.status_code == 202
        for answer in (refused, accepted):
            assert answer.headers["RateLimit-Policy"] == '"rate";q=20;w=1, "jobs";q=5'
        assert accepted.headers["RateLimit"].endswith('"jobs";r=4')
        assert refused.headers["RateLimit"].endswith('"jobs";r=5')


async def test_who_is_called_by_nobody_is_told_no_keys(up: Up) -> None:
    """The engine has none in its environment, those that take calls have them, and nothing printed holds one."""
    environ = psutil.Process(up.pid("engine")).environ()
    assert not any(ALICE in value or ROOT in value for value in environ.values())
    for name in ("ingress", "notifier", "batcher-1"):
        assert ALICE in psutil.Process(up.pid(name)).environ()["INFERQ_API_KEYS"]
    shown = await command("config", settings={"api_keys": f"alice:{ALICE}"})
    assert shown.code == 0
    for said in (up.out, up.err, shown.out, shown.err):
        assert ALICE not in said
