"""Makes a model's int8 or fp16 file from its fp32 one, with `onnx` and ONNX Runtime alone.

int8 is dynamic: weights have a scale for each column, activations get one scale a batch while it runs. Matrix products
and fused attention are int8; embeddings and norms stay fp32, where int8 saves next to no time.
Weights use 7 of their 8 bits: a CPU without VNNI adds two products in 16 bits, which full weights overflow, so answers
would depend on the CPU.
"""

import importlib
import importlib.util
import tempfile
import warnings
from pathlib import Path
from typing import Any, Final

from inferq.errors import OperatorError, first_line
from inferq.installing import install_extra, pip_install
from inferq.modelfolder import MODEL_FILES, layers
from inferq.onnxfile import external_files, fused_attention, operators

# The fusions know these architectures; without them a model is slower and says nothing.
FUSED_TYPES: Final = frozenset({"distilbert", "bert", "roberta", "xlm-roberta", "camembert", "electra"})
# A protobuf file ends at 2 GB; from here on weights go into a file beside it.
EXTERNAL_FROM_BYTES: Final = 1_500_000_000

_INT8_OPERATORS: Final = frozenset({"MatMulInteger", "QAttention"})
_HEADS: Final = ("num_attention_heads", "n_heads")
_WIDTHS: Final = ("hidden_size", "dim")


def note(precision: str, device: str) -> str | None:
    """Return what an operator should know of a precision on a device; None when there is nothing to say."""
    if precision == "fp16" and device == "cpu":
        return "a CPU computes fp16 as fp32 and converts in between: use fp32 or int8 there"
    if precision == "int8" and device == "cuda":
        return "a GPU leaves int8 operators to the CPU: use fp16 or fp32 there"
    return None


def convert(folder: Path, config: dict[str, Any], precision: str) -> int:
    """Write a model folder's int8 or fp16 file from its fp32 one; return how many attention layers it has fused.

    Raises `OperatorError` with one line and the cure, and leaves no file then.
    """
    missing = [name for name in ("onnx", "onnxruntime") if importlib.util.find_spec(name) is None]
    if missing:
        raise OperatorError(f"making {precision} needs {', '.join(missing)}: {pip_install(*missing)}")
    source, target = folder / MODEL_FILES["fp32"], folder / MODEL_FILES[precision]
    with tempfile.TemporaryDirectory(prefix=".convert-", dir=folder) as name:
        place = Path(name)
        made = place / target.name
        try:
            plain = _folded(_fused(source, config, place), place)
            (_write_int8 if precision == "int8" else _write_fp16)(plain, made)
        except Exception as error:
            # Runtime and converters raise classes without a common one of their own
            raise OperatorError(f"{source} cannot be made {precision}: {first_line(error)}") from error
        if precision == "int8" and not _INT8_OPERATORS.intersection(operators(made)):
            raise OperatorError(
                f"{source} has no matrix product with fixed weights: int8 gains nothing, use fp32"
            )
        before, after = fused_attention(plain), fused_attention(made)
        check_fused(after, config)
        if after != before:
            raise OperatorError(f"{precision} lost {before - after} fused attention layers: it was not kept")
        for beside in external_files(made):
            (place / beside).replace(folder / beside)
        made.replace(target)
    return after


def check_fused(found: int, config: dict[str, Any]) -> None:
    """Refuse a graph of a known architecture in which the attention of some layer did not fuse."""
    wanted = layers(config)
    if wanted and found != wanted and config.get("model_type") in FUSED_TYPES:
        raise OperatorError(
            f"only {found} of {wanted} attention layers fused: {install_extra('export')}, and export "
            "from the Hugging Face id"
        )


def _fused(source: Path, config: dict[str, Any], place: Path) -> Path:
    """Return the fused graph; one that another tool exported is fused now."""
    if config.get("model_type") not in FUSED_TYPES or fused_attention(source) == layers(config):
        return source
    optimizer: Any = importlib.import_module("onnxruntime.transformers.optimizer")
    heads, width = (
        next((int(config[name]) for name in names if name in config), 0) for names in (_HEADS, _WIDTHS)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fused = optimizer.optimize_model(
            str(source), model_type="bert", num_heads=heads, hidden_size=width, opt_level=0
        )
    target = place / "fused.onnx"
    fused.save_model_to_file(str(target), use_external_data_format=_is_large(source))
    return target


def _folded(source: Path, place: Path) -> Path:
    """Return the graph with its constants computed: weights that are stored packed are none to a converter."""
    onnx: Any = importlib.import_module("onnx")
    runtime: Any = importlib.import_module("onnxruntime")
    target = place / "folded.onnx"
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(target)
    options.log_severity_level = 3
    if _is_large(source):
        beside = "session.optimized_model_external_initializers_file_name"
        options.add_session_config_entry(beside, "folded.data")
    runtime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    graph = onnx.load(target, load_external_data=False)
    # The quantizer asks, on the root logger, for the preparation that was just done
    onnx.helper.set_model_props(graph, {"onnx.quant.pre_process": "onnxruntime.quant"})
    onnx.save(graph, target)
    return target


def _write_int8(source: Path, target: Path) -> None:
    onnx: Any = importlib.import_module("onnx")
    quantization: Any = importlib.import_module("onnxruntime.quantization")
    quantization.quantize_dynamic(
        source,
        target,
        op_types_to_quantize=["MatMul", "Attention"],
        per_channel=True,
        reduce_range=True,
        weight_type=quantization.QuantType.QInt8,
        use_external_data_format=_is_large(source),
        # Shape inference does not see through the fused operators; what it cannot name is fp32
        extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
    )


def _write_fp16(source: Path, target: Path) -> None:
    onnx: Any = importlib.import_module("onnx")
    float16: Any = importlib.import_module("onnxruntime.transformers.float16")
    with warnings.catch_warnings():
        # One for each tensor with weights too small for fp16, which become the smallest that it has
        warnings.simplefilter("ignore")
        graph = float16.convert_float_to_float16(str(source), keep_io_types=True)
    onnx.save_model(graph, target, save_as_external_data=_is_large(source), location=f"{target.name}.data")


def _is_large(path: Path) -> bool:
    beside = (path.parent / name for name in external_files(path))
    return path.stat().st_size + sum(file.stat().st_size for file in beside) > EXTERNAL_FROM_BYTES
