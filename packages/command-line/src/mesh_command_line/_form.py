"""The form of a command's output for scripts."""

from enum import StrEnum


class Form(StrEnum):
    """The values of `-o`."""

    JSON = "json"
