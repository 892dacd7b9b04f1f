"""Text models of all kinds as their users have them: `inferq up --models`, the commands and the client."""

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest

import inferq
from tests.acceptance.running import Up, command
from tests.encodermodels import WIDTH, direct, ids_of, make_encoder


async def test_embeddings_labels_and_pairs_for_their_users(tmp_path: Path) -> None:
    """On the command line and from Python: what each model answers, and pairs of a whole run or of a line."""
    root = tmp_path / "models"
    make_encoder(root / "mean", modules=("Transformer", "Pooling", "Normalize"))
    make_encoder(root / "match", labels=("match",))
    multi = "multi_label_classification"
    make_encoder(root / "several", labels=("joy", "fear"), problem_type=multi, pairs=False)
    lines = tmp_path / "pairs.jsonl"
    given = [("a b", "c"), ("a", "c d"), ("b", "x")]
    lines.write_text(
        "".join(json.dumps({"text": one, "text_pair": two}) + "\n" for one, two in given[:2])
        + '{"text":"b"}\n'
    )
    up = Up(tmp_path / "up", {"model": "simulated:1,1", "models": str(root), "threads": "1"})
    up.start()
    try:
        state = ("--state", str(up.state_dir))
        shown = await command("submit", *state, "--model", "mean", "a b")
        assert shown.code == 0, shown.err
        assert shown.out.startswith(f"embedding of {WIDTH} ")
        ran = await command(
            "submit",
            *state,
            "--model",
            "match",
            "--input-json",
            "--file",
            str(lines),
            "--text-pair",
            "x",
            "--json",
        )
        assert ran.code == 0, ran.err
        found = [json.loads(line)["result"]["scores"]["match"] for line in ran.out.splitlines()]
        logits = np.array([direct(root / "match", *ids_of(*pair))[0] for pair in given], dtype=np.float64)
        np.testing.assert_allclose(found, 1 / (1 + np.exp(-logits)), atol=1e-5)
        wrong = await command("submit", *state, "--model", "several", "a", "--text-pair", "b")
        assert wrong.code == 1
        assert wrong.out.startswith("refused   invalid_request: ")
        assert "text_pair" in wrong.out
        shown = await command("submit", *state, "--model", "several", "a b c")
        assert shown.code == 0, shown.err
        url = up.api

        def blocking() -> None:
            with inferq.Client(url) as client:
                embedding = client.embed("a b", model="mean", timeout_s=60)
                assert np.linalg.norm(embedding.embedding) == pytest.approx(1, abs=1e-5)
                job = client.submit("a b", model="mean")
                assert client.embedding(job, timeout_s=60).embedding == embedding.embedding
                pair = client.run("a b", text_pair="c", model="match", timeout_s=60)
                assert pair.score == found[0]
                several = client.run("a b c", model="several", timeout_s=60)
                assert set(several.labels) == {one for one, score in several.scores.items() if score >= 0.5}
                jobs = client.submit_many([("a b", "c"), "a b"], model="match")
                assert all(isinstance(one, inferq.Job) for one in jobs)
                with pytest.raises(inferq.JobFailed, match="gave no labels, but embedding"):
                    client.run("a b", model="mean", timeout_s=60)
                with pytest.raises(inferq.BadRequest, match="text_pair"):
                    client.submit("a", text_pair="b", model="several")

        await asyncio.to_thread(blocking)
    finally:
        assert up.stop() == 0
