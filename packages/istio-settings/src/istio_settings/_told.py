"""Settings that were given and do nothing: each is told with its reason."""

from typing import NamedTuple


class Told(NamedTuple):
    """A setting without effect, and the reason.

    quiet: every pod has it, so that it is not worth a warning.
    """

    setting: str
    reason: str
    quiet: bool = False

    def __str__(self) -> str:
        return f"{self.setting} has no effect: {self.reason}"
