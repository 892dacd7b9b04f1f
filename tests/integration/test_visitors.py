"""What a web page of another origin can have a browser do to an ingress without keys: nothing."""

import pytest

from tests.deployment import Deployment
from tests.serving import ready, serving
from tests.support import eventually

EVIL = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
BODY = b'{"text": "What a lovely film"}'


@pytest.mark.parametrize("path", ["/v1/infer", "/v1/infer/batch"])
async def test_a_page_of_another_origin_submits_nothing(streams: Deployment, path: str) -> None:
    """A body without a Content-Type counts as JSON, and needs no leave of the browser's to be sent."""
    async with serving(streams) as client:
        await eventually(lambda: ready(client), what="readiness")
        refused = await client.post(path, content=BODY, headers=EVIL)
        assert refused.status_code == 403
        assert refused.json()["code"] == "forbidden"
        assert (await client.get("/v1/stats")).json()["queue"]["depth"] == 0
        cancelled = await client.delete("/v1/jobs/" + "0" * 32, headers=EVIL)
        assert cancelled.status_code == 403


async def test_a_name_that_was_made_to_lead_here_is_refused(streams: Deployment) -> None:
    """Whatever is asked, the pages too; with keys, which such a page has none of, names do not matter."""
    paths = ("/", "/ops", "/v1/stats", "/v1/jobs/x", "/metrics", "/openapi.json")
    rebound = {"Host": "evil.example:8080", "Accept-Language": "en"}
    async with serving(streams) as client:
        for path in paths:
            assert (await client.get(path, headers=rebound)).status_code == 403, path
        assert (await client.post("/v1/infer", content=BODY, headers=rebound)).status_code == 403
    key = "k" * 32
    async with serving(streams, INFERQ_API_KEYS=f"alice:{key}") as client:
        await eventually(lambda: ready(client), what="readiness")
        known = {"Host": "api.example", "Authorization": f"Bearer {key}"}
        assert (await client.post("/v1/infer", content=BODY, headers=known)).status_code == 202
