"""Holds messages against the description of what is pushed."""

from typing import Any

import jsonschema_rs


class Messages:
    """The messages of a description."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._components = document["components"]

    def validates(self, name: str, value: Any) -> None:
        """Check a message; raises `jsonschema_rs.ValidationError`."""
        whole = {**self._components["messages"][name]["payload"], "components": self._components}
        jsonschema_rs.Draft202012Validator(whole, validate_formats=True).validate(value)

    def valid(self, name: str, value: Any) -> bool:
        """Say whether a value is such a message."""
        try:
            self.validates(name, value)
        except jsonschema_rs.ValidationError:
            return False
        return True
