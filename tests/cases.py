"""Requests to the ingress, good and bad, and what becomes of each."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CASES = [
    json.loads(line) for line in (Path(__file__).parent / "data" / "requests.jsonl").read_text().splitlines()
]


def body_of(case: Mapping[str, Any]) -> bytes:
    """Build the body that a case describes."""
    if "repeat" in case:
        piece, times, before, after = case["repeat"]
        return f"{before}{piece * times}{after}".encode()
    if "raw" in case:
        return str(case["raw"]).encode()
    return json.dumps(case["json"], ensure_ascii=False).encode()
