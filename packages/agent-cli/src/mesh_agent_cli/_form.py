"""The form of a command's output for scripts."""

from enum import StrEnum


class Form(StrEnum):
    """What `-o` takes."""

    JSON = "json"
