"""What the ingress answers, checked against the contract; requests that are good, to send and to change."""

from typing import Any, Final

import httpx

JSON: Final = {"Content-Type": "application/json"}
GOOD: Final = {"text": "good"}


def problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Check that an answer is the problem document that the contract says; return it."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = response.json()
    assert document["code"] == code
    assert document["status"] == status
    assert document["title"]
    assert document["detail"]
    return document


def bearer(key: str) -> dict[str, str]:
    """Return the header that carries a key."""
    return {"Authorization": f"Bearer {key}"}


async def accepted(client: httpx.AsyncClient, **headers: str) -> dict[str, Any]:
    """Send a good request, which has to be accepted; return the answer."""
    response = await client.post("/v1/infer", json=GOOD, headers=headers)
    assert response.status_code == 202, response.text
    answer: dict[str, Any] = response.json()
    return answer
