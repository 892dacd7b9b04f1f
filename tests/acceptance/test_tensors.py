"""Tensor models as their users have them: folders, `inferq up --models`, and the commands."""

import json
from pathlib import Path

from tests.acceptance.running import Up, command
from tests.support import eventually
from tests.tensormodels import MODELS, write_model, write_strings

INPUTS = {"x": [[1.0, 2.5, -3.0, 0.0]]}


async def test_models_from_folders_beside_the_default_one(tmp_path: Path) -> None:
    """Each is served by a batcher of its own; a job of tensors comes back on the command line, and a text as ever."""
    root = tmp_path / "models"
    for name in ("mlp", "multi-output"):
        write_model(root / name, MODELS[name][0]())
    (tmp_path / "inputs.json").write_text(json.dumps(INPUTS))
    listed = await command("model", "list", "--models", str(root), "--json")
    assert [one["model"] for one in json.loads(listed.out)][:3] == ["builtin", "mlp", "multi-output"]
    up = Up(tmp_path / "up", {"model": "simulated:1,1", "models": str(root)})
    up.start()
    try:
        state = ("--state", str(up.state_dir))
        ran = await command(
            "submit", *state, "--model", "multi-output", "--inputs", str(tmp_path / "inputs.json"), "--json"
        )
        assert ran.code == 0, ran.err
        record = json.loads(ran.out)
        square, version, positive = record["result"]["outputs"]
        assert (square["name"], square["shape"], square["data"]) == ("square", [1, 4], [1.0, 6.25, 9.0, 0.0])
        assert (version["data"], positive["data"]) == ([3, 14], [True, True, False, False])
        shown = await command("job", *state, record["job_id"])
        assert "square FP32 [1, 4]" in shown.out
        told = await command("watch", *state, record["job_id"])
        assert (
            "square FP32 [1, 4] 1 6.25 9 0, version INT32 [2] 3 14, positive BOOL [1, 4] true true false false"
            in told.out
        )
        wrong = await command("submit", *state, "--model", "gone", "--inputs", str(tmp_path / "inputs.json"))
        assert (wrong.code, wrong.out.split()[:2]) == (1, ["refused", "model_not_found:"])
        both = await command("submit", *state, "a text", "--inputs", str(tmp_path / "inputs.json"))
        assert (both.code, "leave texts and --file out" in both.err) == (2, True)
        text = await command("submit", *state, "a lovely film", "--json")
        assert json.loads(text.out)["result"]["label"] in {"POSITIVE", "NEGATIVE"}

        async def seen() -> bool:
            stats = await command("stats", *state, "--json")
            return {one["model"] for one in json.loads(stats.out)["batchers"]} == {
                "simulated",
                "mlp",
                "multi-output",
            }

        await eventually(seen, 30, what="a batcher for each model")
        doctor = await command("doctor", *state, "--json")
        found = json.loads(doctor.out)["findings"]
        assert doctor.code == 0, doctor.out
        assert (
            sum(one["name"] == "model" for one in found) == sum(one["name"] == "direct" for one in found) == 3
        )
        queues = next(one["detail"] for one in found if one["name"] == "queues")
        assert queues.startswith("6 queues (inference.requests, inference.requests.mlp, "), queues
        assert "each 0 ready" in queues
    finally:
        assert up.stop() == 0


async def test_a_model_is_checked_by_hand_and_at_the_start(tmp_path: Path) -> None:
    """What its graph takes and gives, or why it cannot be served; `inferq up` then starts nothing."""
    folder = write_model(tmp_path / "lengths", MODELS["lengths"][0]())
    found = await command("model", "check", str(folder))
    assert found.code == 0, found.err
    lines = [" ".join(line.split()) for line in found.out.splitlines()]
    assert {"input x FP32 [-1, -1, 2]", "output y FP32 [-1, 2]", "batches several jobs share a batch"} <= set(
        lines
    )
    fixed = json.loads(
        (
            await command(
                "model", "check", str(write_model(tmp_path / "fixed", MODELS["fixed"][0]())), "--json"
            )
        ).out
    )
    assert (fixed["task"], fixed["shared"], list(fixed["ran_ms"])) == ("tensor", False, ["1"])
    strings = write_strings(tmp_path / "models" / "strings")
    for refused in (
        await command("model", "check", str(strings)),
        await command(
            "up", "--ports", "auto", "--state", str(tmp_path / "s"), "--models", str(strings.parent)
        ),
    ):
        assert refused.code != 0
        assert "input 'words' is of texts" in refused.err


async def test_the_doctor_sends_tensors_where_no_text_is_taken(tmp_path: Path) -> None:
    """Zeros, to a default model of tensors, over its shards: all is well."""
    folder = write_model(tmp_path / "lengths", MODELS["lengths"][0]())
    up = Up(tmp_path / "up", {"model": str(folder), "routing": "hash", "shards": "8"})
    up.start()
    try:

        async def well() -> list[dict[str, str]] | None:
            ended = await command("doctor", "--state", str(up.state_dir), "--json")
            return json.loads(ended.out)["findings"] if ended.code == 0 else None

        found = {one["name"]: one["detail"] for one in await eventually(well, 60, what="a healthy pipeline")}
        assert "8 shards, each with a consumer" in found["queues"]
        assert " after " in found["one job"]
    finally:
        assert up.stop() == 0
