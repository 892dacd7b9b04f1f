"""Shell commands that make the calls of the description. Pure.

They work as they are when pasted; where keys are asked for they take the caller's from `INFERQ_API_KEY`. `ADDRESS`
stands where the address of the service goes.
"""

import json
import shlex
from collections.abc import Mapping
from typing import Any, Final

ADDRESS: Final = "http://address.invalid"

_ASK: Final = "curl -sS"
_KEY: Final = ' -H "Authorization: Bearer $INFERQ_API_KEY"'
_TYPE: Final = "-H 'Content-Type: application/json'"
_SUBMIT: Final = "/v1/infer"
_TAKE_ID: Final = """sed -E 's/.*"job_id":"([0-9a-f]+)".*/\\1/'"""


def command(path: str, method: str, *, body: Any = None, keyed: bool = False) -> str:
    """Return the commands that call ``method``, in capitals, of ``path``; a job in the path is submitted before."""
    ask = _ASK + (_KEY if keyed else "")
    if "{job_id}" in path:
        submit = f"{ask} {ADDRESS}{_SUBMIT}{_sent({'text': 'What a lovely film'})}"
        lines = [f"job=$({submit} \\\n  | {_TAKE_ID})"]
        target = f'"{ADDRESS}{path.replace("{job_id}", "$job")}"'
    else:
        lines, target = (
            [],
            shlex.quote(ADDRESS + path.replace("{model}", "builtin").replace("{version}", "1")),
        )
    if path.endswith("{job_id}") and method == "GET":
        # So that the record has its result.
        target = target[:-1] + '?wait=10"'
    if path.endswith("/events"):
        # Without it curl keeps back what comes until it fills a buffer.
        ask += " -N"
    if method not in ("GET", "POST"):
        ask += f" -X {method}"
    sent = "" if body is None else _sent(body)
    return "\n".join([*lines, f"{ask} {target}{sent}"])


def _sent(body: Mapping[str, Any]) -> str:
    return f" \\\n  {_TYPE} \\\n  -d {shlex.quote(json.dumps(body, ensure_ascii=False))}"
