"""Durations as Go and Istio write them: `24h`, `1h30m`, `100ms`, `1.5s`.

This includes protobuf's JSON form, seconds with a fraction. Sources: Go's time.ParseDuration;
google.protobuf.Duration. A duration is never negative.
"""

from datetime import timedelta

_UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,  # the micro sign
    "\u03bcs": 1_000,  # the Greek letter
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_UNITS_WITH_DAYS_NS = {**_UNITS_NS, "d": 24 * _UNITS_NS["h"]}
_LONGEST_NS = 2**63 - 1
_DIGITS = "0123456789"
_MAX_CHARACTERS = 100

LONGEST = timedelta(microseconds=_LONGEST_NS // 1000)
"""The longest duration that Go and Istio can hold: 2562047h47m16.854775s, some 292 years."""


class DurationError(ValueError):
    """A text that is no duration; the message has examples.

    hint: what is wrong with this text in particular, as `; a day is 24h`; or empty.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message + hint)
        self.hint = hint


class DurationBoundsError(DurationError):
    """A duration that is too short or too long; the message names the bound."""


class Duration(float):
    """Seconds, as the type of a field that is written as `10s`."""

    __slots__ = ()

    EXPECTED = "a duration such as 10s or 250ms"

    @classmethod
    def parse(cls, text: str) -> "Duration":
        """Read the text form; raises `DurationError`."""
        return cls(_nanoseconds(text, 0, _LONGEST_NS) / 1_000_000_000)


def parse_duration(
    text: str,
    *,
    least: timedelta = timedelta(),
    most: timedelta = LONGEST,
    allow_days: bool = False,
) -> timedelta:
    """Read a duration, rounded up to microseconds, so that only zero is zero.

    Raises `DurationBoundsError` for a duration below `least` or above `most`, and `DurationError`
    for any other text.
    allow_days: whether `30d` is read as well, which Go and Istio do not have.
    """
    longest_ns = _LONGEST_NS if most >= LONGEST else _in_microseconds(most) * 1000
    nanoseconds = _nanoseconds(
        text, _in_microseconds(least) * 1000, longest_ns, allow_days=allow_days
    )
    return timedelta(microseconds=-(-nanoseconds // 1000))


def spell_duration(duration: timedelta) -> str:
    """Write a duration as `parse_duration` reads it: `1h30m`, `250ms`, `0s`."""
    return _spelled(_in_microseconds(duration) * 1000)


def _in_microseconds(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1)


def _nanoseconds(text: str, least: int, most: int, *, allow_days: bool = False) -> int:
    stripped = text.strip()
    unsigned = stripped[1:] if stripped.startswith(("+", "-")) else stripped
    if not unsigned or len(unsigned) > _MAX_CHARACTERS:
        raise _no_duration(text)
    value = 0 if unsigned == "0" else _sum(unsigned, text, allow_days=allow_days)
    if stripped.startswith("-"):
        value = -value
    if value > most:
        raise DurationBoundsError(
            f"{_shown(text)} is longer than {_spelled(most)}, the longest allowed"
        )
    if value < least:
        raise DurationBoundsError(
            f"{_shown(text)} is shorter than {_spelled(least)}, the shortest allowed"
        )
    return value


def _sum(rest: str, text: str, *, allow_days: bool) -> int:
    units_ns = _UNITS_WITH_DAYS_NS if allow_days else _UNITS_NS
    value = 0
    while rest:
        number = rest[: len(rest) - len(rest.lstrip(_DIGITS + "."))]
        rest = rest[len(number) :]
        unit = rest[: _unit_length(rest)]
        rest = rest[len(unit) :]
        whole, _, fraction = number.partition(".")
        if unit not in units_ns or "." in fraction or not (whole or fraction):
            raise _no_duration(text, unit=unit)
        value += int(whole or "0") * units_ns[unit]
        value += int(fraction or "0") * units_ns[unit] // 10 ** len(fraction)
    return value


def _unit_length(text: str) -> int:
    return next((at for at, each in enumerate(text) if each in _DIGITS + "."), len(text))


def _no_duration(text: str, *, unit: str | None = None) -> DurationError:
    hint = ""
    if unit == "d":
        hint = "; a day is 24h"
    elif unit == "" and any(each in _DIGITS for each in text):
        hint = "; it needs a unit: h, m, s, ms, us or ns"
    return DurationError(
        f"{_shown(text)} is not a duration such as 24h, 1h30m, 20s or 100ms", hint=hint
    )


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}...")


def _spelled(nanoseconds: int) -> str:
    text = ""
    for unit in ("h", "m"):
        count, nanoseconds = divmod(nanoseconds, _UNITS_NS[unit])
        text += f"{count}{unit}" if count else ""
    if not nanoseconds:
        return text or "0s"
    for unit in ("s", "ms", "us", "ns"):
        if text or nanoseconds >= _UNITS_NS[unit]:
            whole, part = divmod(nanoseconds, _UNITS_NS[unit])
            digits = len(str(_UNITS_NS[unit])) - 1
            fraction = f".{part:0{digits}}".rstrip("0") if part else ""
            return f"{text}{whole}{fraction}{unit}"
    raise AssertionError("a nanosecond is the least there is")
