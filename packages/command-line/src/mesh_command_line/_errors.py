"""The one error that ends a command with a sentence."""

from __future__ import annotations


class CommandError(Exception):
    """A command failed.

    The text, one sentence, goes to standard error, and the exit status is `exit_code`.
    """

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code
