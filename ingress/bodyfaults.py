"""What is wrong with a body, from the decoder's words: a pointer to the place, and what is allowed there. Pure.

A name in those words is the caller's own and may hold anything, so they are matched as a whole or at their end, in a
fixed order. Whatever the caller wrote comes back cut: an answer must not grow with the fault.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from inferq.errors import FieldError, InvalidRequest
from inferq.tensors.datatypes import Datatype
from inferq.tensors.tensor import MAX_NAME, MAX_RANK

TENSOR_ALLOWED: Final = {
    "name": f"must be a string of 1 to {MAX_NAME} characters",
    "datatype": "must be one of " + ", ".join(Datatype),
    "shape": f"must be a list of up to {MAX_RANK} whole numbers of 0 or more",
    "data": "must be a list",
}
"""What the parts of a tensor must be."""
UNKNOWN: Final = re.compile(r"Object contains unknown field `(?P<name>.*)`", re.DOTALL)
MISSING: Final = re.compile(r"Object missing required field `(?P<name>\w+)`")
_WRONG: Final = re.compile(r".* - at `\$\.(?P<name>\w+)(?:\[[^`]*)?`", re.DOTALL)
_WRONG_INPUT: Final = re.compile(r"(?P<said>.*) - at `\$\.inputs\[(?P<at>[^`]*)`", re.DOTALL)
_PLACE: Final = re.compile(r"(?P<index>[0-9]{1,3})\](?:\.(?P<part>\w+))?.*", re.ASCII | re.DOTALL)
_LONGEST_NAME: Final = 100


def invalid(message: str, allowed: Mapping[str, str]) -> InvalidRequest:
    """Return the error of a body that msgspec refused; ``allowed`` says what each field must be."""
    if found := _WRONG_INPUT.fullmatch(message):
        return _wrong_input(found["said"], found["at"])
    if found := UNKNOWN.fullmatch(message):
        return unknown(found["name"], allowed)
    if found := _WRONG.fullmatch(message):
        return refused("/" + found["name"], found["name"], allowed[found["name"]])
    return refused("", "the body", "must be a JSON object")


def unknown(name: str, known: Iterable[str], place: str = "") -> InvalidRequest:
    """Return the error of a field that there is not."""
    name = name[:_LONGEST_NAME]
    pointer = place + "/" + name.replace("~", "~0").replace("/", "~1")
    return refused(pointer, name, "is no field; there are " + ", ".join(known))


def refused(pointer: str, subject: str, detail: str) -> InvalidRequest:
    """Return the error of one place."""
    return InvalidRequest(f"{subject} {detail}", errors=[FieldError(pointer=pointer, detail=detail)])


def _wrong_input(said: str, at: str) -> InvalidRequest:
    """Return what is wrong with a tensor, or a part of one; ``at`` is the path's rest behind `$.inputs[`."""
    found = _PLACE.fullmatch(at)
    index, part = (found["index"], found["part"]) if found else ("", None)
    place = f"/inputs/{index}" if index else "/inputs"
    if name := UNKNOWN.fullmatch(said):
        return unknown(name["name"], TENSOR_ALLOWED, place)
    if name := MISSING.fullmatch(said):
        return _of_part(place, name["name"], "is missing: it ")
    if part in TENSOR_ALLOWED:
        return _of_part(place, part)
    return refused(place, _spoken(place), "must be an object with name, datatype, shape and data")


def _of_part(place: str, part: str, before: str = "") -> InvalidRequest:
    pointer = f"{place}/{part}"
    return refused(pointer, _spoken(pointer), before + TENSOR_ALLOWED[part])


def _spoken(pointer: str) -> str:
    return pointer[1:].replace("/", ".")
