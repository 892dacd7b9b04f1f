"""What the model runs on, and why not on a GPU where there is one."""

import asyncio
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from inferq.childprocess import inherited_env
from inferq.cli.examining.finding import Finding, note, ok, wrong
from inferq.heartbeats import BatcherBeat
from inferq.installing import install_extra, pip_uninstall
from inferq.plurals import counted

PROBE_S: Final = 30.0
_CARD: Final = Path("/proc/driver/nvidia/version")


class Probed(msgspec.Struct, frozen=True, kw_only=True):
    """What the probe told; ``why`` says what does not load, ``driver`` what is wrong with the driver."""

    gpus: int = 0
    driver: str = ""
    providers: list[str] = []
    runtime: str = ""
    why: str = ""

    @property
    def cuda(self) -> bool:
        """Whether ONNX Runtime should be able to use a GPU."""
        return self.gpus > 0 and "CUDAExecutionProvider" in self.providers and not self.why


async def look_at_device(wanted: str, batchers: Sequence[BatcherBeat]) -> list[Finding]:
    """Return what is to be said of the device, as set, as it is here, and as the batchers have it."""
    if importlib.util.find_spec("onnxruntime") is None:
        cure = f"{install_extra('cpu')}, or for CUDA {install_extra('gpu')}"
        return [wrong("device", "onnxruntime is not installed", cure)]
    probed = await _probe()
    found = judge_device(wanted, probed, card=_CARD.exists())
    for beat in batchers:
        if beat.fallback_reason and (wanted == "cuda" or probed.cuda):
            detail = f"{beat.id} runs on {beat.device}: {beat.fallback_reason}"
            found.append(note("device", detail, "mend that, and restart this batcher"))
    return found


def judge_device(wanted: str, probed: Probed, *, card: bool) -> list[Finding]:
    """Return what is to be said of a machine; ``card`` says whether its kernel knows an NVIDIA GPU."""
    runtime = f"onnxruntime {probed.runtime}"
    if wanted == "cpu":
        return [ok("device", f"{runtime} uses the CPU, as set")]
    if probed.cuda:
        return [ok("device", f"{runtime} uses CUDA, on {counted(probed.gpus, 'GPU')}")]
    why, cure = _why(probed)
    if wanted == "cuda":
        return [wrong("device", f"{runtime} cannot use CUDA: {why}", f"{cure}, or set INFERQ_DEVICE=auto")]
    if card or probed.gpus:
        detail = f"{runtime} uses the CPU, though a GPU is here: {why}"
        return [note("device", detail, f"{cure}, or set INFERQ_DEVICE=cpu")]
    return [ok("device", f"{runtime} uses the CPU; {why}")]


def _why(probed: Probed) -> tuple[str, str]:
    if not probed.gpus:
        return (
            probed.driver or "no GPU is here",
            "install or mend the driver until `nvidia-smi` shows the GPU",
        )
    if "CUDAExecutionProvider" not in probed.providers:
        return probed.why, f"{pip_uninstall('onnxruntime')}, then {install_extra('gpu')}"
    return probed.why, f"{install_extra('gpu')}, which brings CUDA's libraries"


async def _probe() -> Probed:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "inferq.cli.examining.cudaprobe",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=inherited_env(),
    )
    try:
        async with asyncio.timeout(PROBE_S):
            out, _ = await process.communicate()
        return msgspec.json.decode(out, type=Probed)
    except TimeoutError:
        return Probed(why=f"loading it takes longer than {PROBE_S:.0f} s")
    except msgspec.DecodeError:
        return Probed(why=f"loading it ended with exit status {process.returncode}")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
