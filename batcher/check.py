"""`python -m batcher.check SPEC [TEXT…]`: load a model as the batcher does and show what it answers.

Exit code 0 when the model is fit for use, 1 with one line when it is not. ``--bench`` times it as well.
"""

import argparse
import itertools
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

from batcher.model import Model, load
from batcher.scores import scores
from batcher.tokenizer import InputRefused, TextTokenizer, open_tokenizer
from batcher.wire import pack_run
from inferq.errors import OperatorError
from inferq.modelfolder import digest, resolve
from inferq.modelspec import parse

SAMPLES: Final = ("I loved it", "terrible service")
BENCH_ROWS: Final = (1, 4, 16)
BENCH_TOKENS: Final = (8, 32, 64)
BENCH_RUNS: Final = 5


def report(arguments: argparse.Namespace) -> dict[str, Any]:
    """Load the model and return what there is to say of it; `OperatorError` when it is not fit for use."""
    try:
        spec = parse(arguments.spec)
    except ValueError as error:
        raise OperatorError(f"model {arguments.spec!r}: {error}") from error
    folder = resolve(spec, cache_dir=arguments.cache_dir)
    tokenizer = open_tokenizer(spec, folder)
    model = load(
        spec, folder, device=arguments.device, precision=arguments.precision, threads=arguments.threads
    )
    found: dict[str, Any] = {
        "model": spec.name,
        "folder": str(folder.path) if folder is not None else None,
        "note": folder.note if folder is not None else None,
        "digest": digest(folder.path) if folder is not None else spec.text,
        "device": model.device,
        "fallback_reason": model.fallback_reason,
        "inputs": model.inputs,
        "labels": list(model.labels),
        "max_length": min(model.max_length, tokenizer.max_length),
        "answers": [_answer(model, tokenizer, text) for text in arguments.text or SAMPLES],
    }
    if arguments.bench:
        found["bench"] = bench(model)
    return found


def bench(model: Model) -> list[dict[str, float]]:
    """Return the median milliseconds of a run for some batch sizes and lengths, after one run to warm up."""
    figures = []
    for rows, tokens in itertools.product(BENCH_ROWS, BENCH_TOKENS):
        ids = np.full((rows, min(tokens, model.max_length)), 4, dtype=np.int64)
        mask = np.ones_like(ids)
        model.run(ids, mask)
        taken_ms = []
        for _ in range(BENCH_RUNS):
            started = time.perf_counter()
            model.run(ids, mask)
            taken_ms.append((time.perf_counter() - started) * 1000)
        figures.append(
            {"rows": rows, "tokens": ids.shape[1], "median_ms": round(statistics.median(taken_ms), 3)}
        )
    return figures


def _answer(model: Model, tokenizer: TextTokenizer, text: str) -> dict[str, Any]:
    try:
        encoded = tokenizer.encode(text)
        logits = model.run(*pack_run(0, [encoded.ids], pad_id=tokenizer.pad_id).arrays()).logits
        return {"text": text, **scores(logits[0].tolist(), model.labels), "truncated": encoded.truncated}
    except (InputRefused, ValueError, RuntimeError) as error:
        raise OperatorError(f"the model does not answer {text[:40]!r}: {error}") from error


def _lines(found: dict[str, Any]) -> list[str]:
    device = found["device"] + (f" ({found['fallback_reason']})" if found["fallback_reason"] else "")
    lines = [
        f"model       {found['model']}" + (f" at {found['folder']}" if found["folder"] else ""),
        f"digest      {found['digest']}",
        f"device      {device}",
        f"inputs      {', '.join(found['inputs'])}, up to {found['max_length']} tokens",
        f"labels      {', '.join(found['labels'])}",
    ]
    lines += [f"note        {found['note']}"] if found["note"] else []
    lines += [f"{answer['label']:<11} {answer['score']:.4f}  {answer['text']}" for answer in found["answers"]]
    for figure in found.get("bench", ()):
        each_ms = figure["median_ms"] / figure["rows"]
        lines.append(
            f"bench       {figure['rows']:>2} x {figure['tokens']:>2} tokens: "
            f"{figure['median_ms']:.2f} ms a batch, {each_ms:.2f} ms a text"
        )
    return lines


def main(argv: list[str] | None = None) -> int:
    """Check one model and print what was found."""
    parser = argparse.ArgumentParser(prog="python -m batcher.check", description="check a model")
    parser.add_argument("spec", help="as in INFERQ_MODEL")
    parser.add_argument("text", nargs="*", help="texts to answer")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--threads", type=int, default=0, help="0: what this process may use")
    parser.add_argument("--cache-dir", type=Path, default=None)
    parser.add_argument("--bench", action="store_true", help="time some batch sizes and lengths")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args(argv)
    try:
        found = report(arguments)
    except OperatorError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write((json.dumps(found) if arguments.json else "\n".join(_lines(found))) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
