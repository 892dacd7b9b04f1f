"""What is said of one operation of the ingress, and of its answers. Pure."""

from dataclasses import dataclass

from inferq.errors import HttpError


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer that is no problem; ``schema`` names a schema, ``header_fields`` and ``examples`` name parts.

    ``binary`` says that it may also be JSON with bytes behind it.
    """

    status: int
    meaning: str
    media_type: str = ""
    schema: str = ""
    header_fields: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    # The operations that its job id leads to.
    leads_to: tuple[str, ...] = ()
    binary: bool = False


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One method of one path; ``keyed`` says that an API key is asked for, where there are any.

    ``fault`` names the schema of its errors where these are no problem documents.
    """

    path: str
    method: str
    name: str
    tag: str
    summary: str
    text: str
    parameters: tuple[str, ...] = ()
    body: str = ""
    body_examples: tuple[str, ...] = ()
    answers: tuple[Answer, ...]
    errors: tuple[type[HttpError], ...] = ()
    # Of these, those that may come with an entry for each input.
    errors_of_inputs: tuple[type[HttpError], ...] = ()
    keyed: bool = False
    fault: str = ""
