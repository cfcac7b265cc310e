"""Regular expressions, checked by the library that Envoy itself uses (RE2)."""

import functools
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import re2

from istio_config.expression_cost import MAX_OBJECT_COST, compile_cost, group_count
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding

_MOST_BYTES = 1024
_LEAST_MEMORY = 1 << 18
"""In bytes, for RE2: enough to parse every text of `_MOST_BYTES`."""
_TOO_LARGE = b"pattern too large - compile failed"
"""RE2's error for an expression that it parsed, and that needs more memory to compile than given;
Python's binding has no code for it. Whether it is too large for Envoy, `compile_cost` decides."""


@functools.cache
def _quiet() -> re2.Options:
    """Return options with which RE2 logs no mistake: it is a finding, for the user."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _LEAST_MEMORY
    return options


def regex_mistake(text: str, *, most_instructions: int | None = None) -> str | None:
    """Return what is wrong with a regular expression for Envoy, or None.

    most_instructions: of its program, where Envoy has a bound of its own.
    """
    if not text:
        return 'must not be empty; ".*" matches everything'
    if len(text.encode()) > _MOST_BYTES:
        return f"is longer than {_MOST_BYTES} bytes"
    too_large = f'"{text[:80]}" is too large a regular expression for Envoy'
    if compile_cost(text) > MAX_OBJECT_COST:
        return f"{too_large}: count to less, as in .{{0,99}}, or match fewer sorts of characters"
    size = _program_size(text)
    if isinstance(size, str):
        return f'"{text[:80]}" is not a regular expression of RE2: {size}'
    if most_instructions is not None and size > most_instructions:
        return too_large
    return None


def _program_size(text: str) -> float | str:
    """Return the size of the program, infinity if RE2 runs out of memory, or why it is invalid."""
    try:
        return int(re2.compile(text, _quiet()).programsize)
    except re2.error as error:
        why = error.args[0] if error.args else ""
        if why == _TOO_LARGE:
            return math.inf
        return why.decode(errors="replace") if isinstance(why, bytes) else str(why)


class Expression(NamedTuple):
    """A regular expression in a field, and how often a virtual host has it."""

    path: FieldPath
    text: str
    times: int = 1

    @property
    def cost(self) -> int:
        """The cost to Envoy in each virtual host."""
        return self.times * compile_cost(self.text)


def cost_mistakes(expressions: Iterable[Expression]) -> Iterator[Finding]:
    """Yield the first expression with which those of an object cost too much together.

    One that is too large by itself does not count: `regex_mistake` is about it.
    """
    total = 0
    for each in expressions:
        if compile_cost(each.text) > MAX_OBJECT_COST:
            continue
        total += each.cost
        if total > MAX_OBJECT_COST:
            message = "with this one, the regular expressions of the object are too much for Envoy"
            yield each.path, f"{message}: make them smaller, or several objects"
            return


def substitution_mistake(pattern: str, text: str) -> str | None:
    r"""Return what is wrong with a replacement such as `/id/\1` for this valid pattern, or None."""
    groups = group_count(pattern)
    rest = iter(text)
    for each in rest:
        if each != "\\":
            continue
        after = next(rest, "")
        if after.isascii() and after.isdecimal():
            if int(after) > groups:
                return f"\\{after} names a group, and the expression has {groups}"
        elif after != "\\":
            return f'"\\{after}" has no meaning here; write \\\\ for a backslash'
    return None
