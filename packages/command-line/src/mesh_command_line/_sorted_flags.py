"""Sorts a command line: flags of the command, and flags that are passed over.

Istio's programs pass over flags they do not know, so that templates of other releases go on
working. A flag that is unknown takes the next word as its value unless that begins with a dash,
as there (https://pkg.go.dev/github.com/spf13/pflag).
"""

from collections.abc import Collection, Mapping, Sequence

_TRUE, _FALSE = ("true", "1", "t"), ("false", "0", "f")


class FlagValueError(ValueError):
    """A flag that is on or off has another value."""


def sort_flags(
    words: Sequence[str], *, own: Mapping[str, bool], booleans: Collection[str] = ()
) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the words for the command, and the flags that are passed over, with their values.

    own: the command's flags, and whether each takes a value. booleans: flags of others that take no
    value after a space. Raises `FlagValueError`.
    """
    kept: list[str] = []
    passed: list[tuple[str, str]] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            kept += rest
            break
        if not word.startswith("-") or word == "-":
            kept.append(word)
            continue
        name, equals, value = word.partition("=")
        if (takes_value := own.get(name)) is not None:
            kept += _own_flag(name, value if equals else None, takes_value, rest)
        elif equals:
            passed.append((name, value))
        elif name in booleans or not rest or rest[0].startswith("-"):
            passed.append((name, ""))
        else:
            passed.append((name, rest.pop(0)))
    return kept, passed


def _own_flag(name: str, value: str | None, takes_value: bool, rest: list[str]) -> list[str]:  # noqa: FBT001
    if takes_value:
        if value is None and rest:
            value = rest.pop(0)
        # One word: a value that begins with a dash would be read as a flag.
        joint = "=" if name.startswith("--") else ""
        return [name] if value is None else [f"{name}{joint}{value}"]
    if value is None or value.lower() in _TRUE:
        return [name]
    if value.lower() in _FALSE:
        return []
    raise FlagValueError(f"{name} is {value!r}, it must be true or false")
