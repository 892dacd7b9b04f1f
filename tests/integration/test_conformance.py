"""The ingress does what its description says: schemathesis reads the one and tries the other."""

import asyncio
import html
import json
import os
import re
import shutil
import sys
from pathlib import Path

import httpx
import pytest

from inferq.webhooks.signing import NEW_BYTES, spelled
from tests.cases import CASES, body_of
from tests.deployment import Deployment
from tests.described import Described
from tests.ender import ending
from tests.serving import ready, serving
from tests.support import eventually

FOLDER = Path(__file__).resolve().parents[1] / "conformance"
KEY = "conformance-0123456789abcdef"
LONGEST_S = 60.0


async def test_the_ingress_conforms_to_its_description(streams: Deployment, tmp_path: Path) -> None:
    """Every call answers with a described status, body and header; bad data is refused, good data is taken."""
    options = {
        "INFERQ_API_KEYS": f"tester:{KEY}",
        "INFERQ_KEY_RATE": "100000",
        "INFERQ_KEY_JOBS": "100000",
        "INFERQ_QUEUE_LIMIT": "100000",
        "INFERQ_WEBHOOK_SECRET": spelled(os.urandom(NEW_BYTES)),
    }
    async with serving(streams, **options) as client:
        await eventually(lambda: ready(client), what="readiness")
        document = (await client.get("/openapi.json")).json()
        for methods in document["paths"].values():
            for operation in methods.values():
                # There are keys, so going without one is no way any more.
                operation["security"] = [way for way in operation["security"] if way]
        # Whoever waits for a job, or follows it, gets to see its end.
        await ending(streams, most_s=0.3)
        # As a file, so that the description's own path is tried like the others.
        description = tmp_path / "openapi.json"
        description.write_text(json.dumps(document))
        tried = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("st"),
            *(
                "--config-file",
                FOLDER / "schemathesis.toml",
                "run",
                description,
                "--url",
                str(client.base_url),
            ),
            cwd=tmp_path,
            env=os.environ | {"SCHEMATHESIS_HOOKS": str(FOLDER / "hooks.py"), "CONFORMANCE_KEY": KEY},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(LONGEST_S):
                output, _ = await tried.communicate()
        finally:
            if tried.returncode is None:
                tried.kill()
                await tried.wait()
    said = output.decode()
    assert tried.returncode == 0, said
    assert f"Tested: {sum(len(methods) for methods in document['paths'].values())}" in said, said


async def test_every_known_request_is_answered_as_described(streams: Deployment) -> None:
    """Status, header fields and body of each known case, good or bad, are ones that the description has."""
    async with serving(streams) as client:
        await eventually(lambda: ready(client), what="readiness")
        described = Described((await client.get("/openapi.json")).json())
        for case in CASES:
            headers = {"content-type": "application/json", **case.get("headers", {})}
            response = await client.post("/v1/infer", content=body_of(case), headers=headers)
            described.conforms("/v1/infer", "post", response)
            many = b'{"inputs":[' + body_of(case) + b"]}"
            response = await client.post("/v1/infer/batch", content=many, headers=headers)
            described.conforms("/v1/infer/batch", "post", response)
        job = (await client.post("/v1/infer", json={"text": "good"})).json()["status_url"]
        for method, status in (("get", 200), ("delete", 200), ("get", 200), ("delete", 409)):
            response = await client.request(method, job)
            assert response.status_code == status
            described.conforms("/v1/jobs/{job_id}", method, response)
        await follows(client, described)
        for path in ("/v1/stats", "/healthz", "/readyz", "/openapi.json", "/asyncapi.json"):
            described.conforms(path, "get", await client.get(path))


async def follows(client: httpx.AsyncClient, described: Described) -> None:
    """Check what is answered to those who wait for a job, or follow it."""
    waiting = {"Prefer": "wait=1", "Idempotency-Key": "k"}
    accepted = await client.post("/v1/infer", json={"text": "good"}, headers=waiting)
    assert (accepted.status_code, accepted.headers["preference-applied"]) == (202, "wait=1")
    described.conforms("/v1/infer", "post", accepted)
    job = accepted.json()["status_url"]
    described.conforms("/v1/jobs/{job_id}", "get", await client.get(f"{job}?wait=1"))
    refused = await client.get(f"{job}?wait=61")
    assert refused.status_code == 400
    described.conforms("/v1/jobs/{job_id}", "get", refused)
    await client.delete(job)
    ended = await client.post("/v1/infer", json={"text": "good"}, headers=waiting)
    assert (ended.status_code, ended.json()["status"]) == (200, "cancelled")
    described.conforms("/v1/infer", "post", ended)
    events = "/v1/jobs/{job_id}/events"
    followed = await client.get(f"{job}/events")
    assert followed.status_code == 200
    described.conforms(events, "get", followed)
    known = await client.get(f"{job}/events", headers={"Last-Event-ID": "2"})
    assert known.status_code == 204
    described.conforms(events, "get", known)
    described.conforms(events, "get", await client.get(f"/v1/jobs/{'0' * 32}/events"))


async def test_wrong_paths_and_methods_are_as_described(streams: Deployment) -> None:
    """A 404 and a 405 are the documents that are shown, and Allow names every method that the description has."""
    async with serving(streams) as client:
        described = Described((await client.get("/openapi.json")).json())
        parts = described.document["components"]
        for path in ("/nowhere", "/v1/infer/", "/v1/jobs/", "/docs/", "/v1/stats/x"):
            for method in ("GET", "POST"):
                response = await client.request(method, path)
                assert response.status_code == 404, path
                described.is_as(parts["responses"]["NoSuchPath"], response)
                assert response.json() == parts["examples"]["no_such_path"]["value"]
        for path, methods in described.document["paths"].items():
            path = path.replace("{job_id}", "0" * 32)
            taken = {method.upper() for method in methods} | ({"HEAD"} if "get" in methods else set())
            for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} - taken:
                response = await client.request(method, path)
                assert response.status_code == 405, f"{method} {path}"
                if path.startswith("/v2"):
                    described.validates(parts["schemas"]["CallFault"], response.json())
                else:
                    described.is_as(parts["responses"]["MethodNotAllowed"], response)
                    assert response.json() == parts["examples"]["method_not_allowed"]["value"]
                assert response.headers["allow"] == ", ".join(sorted(taken)), f"{method} {path}"
            if "HEAD" in taken:
                looked = await client.get(path)
                response = await client.head(path)
                assert (response.status_code, response.content) == (looked.status_code, b"")


# Where the tests decide, a missing program must not look like a passed test.
@pytest.mark.skipif(
    shutil.which("curl") is None and os.environ.get("CI") != "true", reason="curl is not installed"
)
async def test_the_commands_of_the_page_work(streams: Deployment) -> None:
    """What the page says to paste into a shell does what it says."""
    async with serving(streams, INFERQ_API_KEYS=f"tester:{KEY}") as client:
        await eventually(lambda: ready(client), what="readiness")
        page = (await client.get("/docs")).text
        commands = [html.unescape(one) for one in re.findall(r"<code>((?:job=|curl )[^<]*)</code>", page)]
        assert len(commands) == 24
        for command in commands:
            if command.endswith('/events"'):
                # The last of those for jobs: it goes on until the job has ended.
                await ending(streams)
            running = await asyncio.create_subprocess_exec(
                # Until then a look waits in vain.
                *("sh", "-euc", command.replace("?wait=10", "?wait=1")),
                env=os.environ | {"INFERQ_API_KEY": KEY},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            async with asyncio.timeout(10.0):
                output, errors = await running.communicate()
            assert running.returncode == 0, errors
            assert output, command
            # There is no model of embeddings here.
            refused = "/v1/embeddings" in command
            assert output.startswith(b'{"type"') == refused, f"{command}\n{output.decode()}"
