"""Limits of what a caller may send that hold for jobs and for calls alike. Pure."""

from typing import Final

# Characters of a text, and of a model's name.
MAX_TEXT: Final = 2000
MAX_MODEL: Final = 100
# Inputs of one request, each of which is a job, and tensors of one job.
MAX_INPUTS: Final = 256
MAX_TENSORS: Final = 64
# Where tensors are taken: so much JSON for each of their bytes, beside a usual body, but never more than the last.
JSON_BYTES_A_BYTE: Final = 8
MOST_BODY_BYTES: Final = 32 * 1024 * 1024
