"""One flag, variable or field of Istio's, and how it counts here."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

Fate = Literal["honoured", "without effect", "refused"]

HONOURED: Fate = "honoured"
NO_EFFECT: Fate = "without effect"
REFUSED: Fate = "refused"

_TRUE, _FALSE = ("true", "1", "t", "yes"), ("false", "0", "f", "no")


class Setting(NamedTuple):
    """A row of the table.

    name: of a variable, of variables that begin alike (`ISTIO_META_*`), of a flag with its dashes,
        or of a field.
    fate: `honoured`; `without effect`, accepted, and the log says that it does nothing; or
        `refused`, the program does not start.
    why: of a setting that is honoured, its effect; otherwise the reason, and what to do instead.
    silent: values that ask for no more than the program does anyway: accepted without a word.
    by_value: values with a reason of their own, which replaces `why`.
    quiet: logged at level info, because an installation sets it everywhere.
    boolean: of a flag, that it takes no value after a space.
    """

    name: str
    fate: Fate
    why: str
    silent: tuple[str, ...] = ()
    by_value: Mapping[str, str] = {}
    quiet: bool = False
    boolean: bool = False

    def is_silent(self, value: str) -> bool:
        """Return whether the value asks for no more than the program does anyway."""
        return not value or any(_same(value, each) for each in self.silent)

    def reason(self, value: str) -> str:
        return self.by_value.get(value, self.why)


def _same(value: str, other: str) -> bool:
    if value == other:
        return True
    return any(value.lower() in words and other in words for words in (_TRUE, _FALSE))
