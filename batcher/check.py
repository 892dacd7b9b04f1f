"""`python -m batcher.check SPEC [TEXT…]`: load a model as the batcher does and show what it answers.

Exit code 0 when the model is fit for use, 1 with one line when it is not. For int8 and fp16 it says how far they are
from fp32: what was measured when the file was made, or else what is measured now.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from batcher.drift import Drift, keep, kept, measure
from batcher.model import Model, load
from batcher.rowdrift import RowDrift, row_drift
from batcher.tensorcheck import tensor_lines, tensor_report
from batcher.texttask import labelled
from batcher.tokenizer import InputRefused, TextTokenizer, open_tokenizer
from batcher.wire import pack_run
from inferq.errors import OperatorError
from inferq.head import Kind
from inferq.modelfolder import MODEL_FILES, digest, precision_file, resolve
from inferq.modelspec import ModelSpec, parse
from inferq.onnxfile import fused_attention
from inferq.plurals import counted
from inferq.precision import note
from inferq.progresspipe import reporter

SAMPLES: Final = ("I loved it", "terrible service")
# Of an embedding's numbers.
_SHOWN: Final = 4


def report(arguments: argparse.Namespace) -> dict[str, Any]:
    """Load the model and return what there is to say of it; `OperatorError` when it is not fit for use."""
    progress = reporter(arguments.progress_fd)
    spec = parsed(arguments.spec)
    folder = resolve(spec, cache_dir=arguments.cache_dir, progress=progress)
    if folder is not None and folder.signature is not None:
        return tensor_report(arguments, folder)
    tokenizer = open_tokenizer(spec, folder)
    model = load(
        spec, folder, device=arguments.device, precision=arguments.precision, threads=arguments.threads
    )
    found: dict[str, Any] = {
        "model": spec.name,
        "task": "embedding" if model.head.kind is Kind.EMBEDDING else "text",
        "answers_with": model.head.text,
        "dimensions": model.width if model.head.kind is Kind.EMBEDDING else None,
        "pairs": tokenizer.pairs,
        "folder": None,
        "note": None,
        "digest": spec.text,
        "device": model.device,
        "fallback_reason": model.fallback_reason,
        "precision": arguments.precision,
        "file": None,
        "fused_attention": None,
        "precision_note": None,
        "inputs": model.inputs,
        "labels": list(model.labels),
        "max_length": min(model.max_length, tokenizer.max_length),
        "answers": [_answer(model, tokenizer, text) for text in arguments.text or SAMPLES],
        "drift": None,
        "row_drift": None,
    }
    if folder is None:
        return found
    device, kind = model.device, model.head.kind
    # Its memory is needed for the comparison
    del model
    drift = None
    rows = None
    precision, asked = arguments.precision, arguments.device
    if precision != "fp32" and kind is not Kind.SINGLE:
        rows = row_drift(spec, folder, tokenizer, precision=precision, device=asked, progress=progress)
    elif precision != "fp32":
        drift = kept(folder, precision)
        if drift is None or drift.device != device:
            drift = measure(spec, folder, tokenizer, precision=precision, device=asked, progress=progress)
            if arguments.keep_drift:
                keep(folder, drift)
    file = precision_file(folder, arguments.precision)
    return found | {
        "folder": str(folder.path),
        "note": folder.note,
        "digest": digest(folder.path),
        "file": file.name,
        "fused_attention": fused_attention(file),
        "precision_note": note(arguments.precision, device),
        "drift": msgspec.to_builtins(drift),
        "row_drift": msgspec.to_builtins(rows),
    }


def parsed(text: str) -> ModelSpec:
    """Return a model specification; `OperatorError` when it is none."""
    try:
        return parse(text)
    except ValueError as error:
        raise OperatorError(f"model {text!r}: {error}") from error


def model_parser(prog: str, description: str) -> argparse.ArgumentParser:
    """Return a parser of the flags that every command about one model takes."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("spec", help="as in INFERQ_MODEL")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--precision", choices=tuple(MODEL_FILES), default="fp32")
    parser.add_argument("--threads", type=int, default=0, help="0: what this process may use")
    parser.add_argument("--cache-dir", type=Path, default=None)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--progress-fd", type=int, default=None, help="where to tell of progress")
    return parser


def _answer(model: Model, tokenizer: TextTokenizer, text: str) -> dict[str, Any]:
    try:
        encoded = tokenizer.encode(text)
        row = model.run(*pack_run(0, [encoded.ids], pad_id=tokenizer.pad_id).arrays())[0]
        if model.head.kind is Kind.EMBEDDING:
            shown = {"embedding": row[:_SHOWN].tolist(), "truncated": encoded.truncated}
        else:
            shown = msgspec.to_builtins(
                labelled(row.tolist(), model.labels, model.head, truncated=encoded.truncated)
            )
        return {"text": text, **shown}
    except (InputRefused, ValueError, RuntimeError) as error:
        raise OperatorError(f"the model does not answer {text[:40]!r}: {error}") from error


def _lines(found: dict[str, Any]) -> list[str]:
    if found["task"] == "tensor":
        return tensor_lines(found)
    device = found["device"] + (f" ({found['fallback_reason']})" if found["fallback_reason"] else "")
    lines = [
        f"model       {found['model']}" + (f" at {found['folder']}" if found["folder"] else ""),
        f"digest      {found['digest']}",
        f"device      {device}",
    ]
    if found["file"]:
        fused = f"attention of {counted(found['fused_attention'], 'layer')} fused"
        lines.append(f"precision   {found['precision']} from {found['file']}, {fused}")
    lines += [f"note        {found[name]}" for name in ("precision_note", "note") if found[name]]
    lines += [
        f"inputs      {', '.join(found['inputs'])}, up to {found['max_length']} tokens",
        f"pairs       {'taken' if found['pairs'] else 'not taken: one text a job'}",
        f"answers     {found['answers_with']}",
    ]
    if found["dimensions"] is not None:
        lines.append(f"dimensions  {found['dimensions']}")
    if found["labels"]:
        lines.append(f"labels      {', '.join(found['labels'])}")
    if found["row_drift"]:
        lines.append(f"drift       {msgspec.convert(found['row_drift'], RowDrift).text}")
    if found["drift"]:
        lines += [f"drift       {line}" for line in msgspec.convert(found["drift"], Drift).lines()]
    return lines + [_answer_line(answer) for answer in found["answers"]]


def _answer_line(answer: dict[str, Any]) -> str:
    if "label" in answer:
        return f"{answer['label']:<11} {answer['score']:.4f}  {answer['text']}"
    if "labels" in answer:
        return f"{', '.join(answer['labels']) or 'no label':<18}  {answer['text']}"
    if "values" in answer:
        return f"{', '.join(f'{value:.4f}' for value in answer['values'].values()):<18}  {answer['text']}"
    return f"{' '.join(f'{value:.4f}' for value in answer['embedding'])} …  {answer['text']}"


def main(argv: list[str] | None = None) -> int:
    """Check one model and print what was found."""
    parser = model_parser("python -m batcher.check", "check a model")
    parser.add_argument("text", nargs="*", help="texts to answer")
    parser.add_argument(
        "--keep-drift", action="store_true", help="write into the folder how far it is from fp32"
    )
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
