"""The ingress does what its description says: schemathesis reads the one and tries the other."""

import asyncio
import json
import os
import sys
from pathlib import Path

from tests.deployment import Deployment
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
    }
    async with serving(streams, **options) as client:
        await eventually(lambda: ready(client), what="readiness")
        document = (await client.get("/openapi.json")).json()
        for methods in document["paths"].values():
            for operation in methods.values():
                # There are keys, so going without one is no way any more.
                operation["security"] = [way for way in operation["security"] if way]
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
