"""Regular expressions, checked by the library that Envoy itself uses (RE2)."""

import functools

import re2

_MOST_BYTES = 1024
_MOST_INSTRUCTIONS = 32768
"""Envoy's limit, as agents set it (runtime key `re2.max_program_size.error_level`)."""


@functools.cache
def _quiet() -> re2.Options:
    """Make the options: a mistake is told to the user, and not logged by the library."""
    options = re2.Options()
    options.log_errors = False
    return options


def regex_mistake(text: str, *, most_instructions: int = _MOST_INSTRUCTIONS) -> str | None:
    """Return what is wrong with a regular expression for Envoy, or None."""
    if not text:
        return 'must not be empty; ".*" matches everything'
    if len(text.encode()) > _MOST_BYTES:
        return f"is longer than {_MOST_BYTES} bytes"
    try:
        compiled = re2.compile(text, _quiet())
    except re2.error as error:
        why = error.args[0] if error.args else ""
        told = why.decode(errors="replace") if isinstance(why, bytes) else str(why)
        return f'"{text[:80]}" is not a regular expression of RE2: {told}'
    if compiled.programsize > most_instructions:
        return f'"{text[:80]}" is too large a regular expression for Envoy'
    return None


def substitution_mistake(pattern: str, text: str) -> str | None:
    r"""Return what is wrong with a replacement such as `/id/\1` for this valid pattern, or None."""
    groups = int(re2.compile(pattern, _quiet()).groups)
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
