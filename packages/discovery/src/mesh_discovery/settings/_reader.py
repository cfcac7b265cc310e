"""Reads single settings of flags and environment, and gathers what is wrong with them."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from mesh_configfile import Duration, DurationBoundsError, DurationError
from mesh_filewatch import ReadTimedOut, run_with_timeout


def wrong_duration(name: str, text: str, error: DurationError) -> str:
    """Return the sentence for a setting that is no duration."""
    if isinstance(error, DurationBoundsError):
        return f"{name}: {error}"
    return f"{name} is {text!r}: expected a duration such as 24h or 100ms{error.hint}"


class Reader:
    """The environment, read one variable at a time; each mistake is a sentence in `problems`."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self.problems: list[str] = []

    def text(self, name: str) -> str:
        return self.environ.get(name, "")

    def names(self, name: str) -> frozenset[str]:
        return frozenset(filter(None, (each.strip() for each in self.text(name).split(","))))

    def duration(self, name: str, default: float, *, zero: bool = False) -> float:
        text = self.text(name)
        return self.parsed_duration(name, text, default, zero=zero) if text else default

    def parsed_duration(self, name: str, text: str, default: float, *, zero: bool = False) -> float:
        try:
            seconds = float(Duration.parse(text))
        except DurationError as error:
            self.problems.append(wrong_duration(name, text, error))
            return default
        if seconds == 0 and not zero:
            self.problems.append(f"{name} is {text!r}: must be more than 0")
            return default
        return seconds

    def flag(self, name: str, *, default: bool = False) -> bool:
        text = self.text(name).lower()
        if text not in ("", "true", "false", "1", "0"):
            self.problems.append(f"{name} is {text!r}: expected true or false")
        return text in ("true", "1") if text else default

    def is_there(self, path: Path, test: Callable[[Path], bool], *, name: str) -> bool:
        try:
            return run_with_timeout(partial(test, path), path=path)
        except ReadTimedOut as error:
            self.problems.append(f"{name} {error}")
            return True

    def percentage(self, name: str, default: int) -> float:
        text = self.text(name) or str(default)
        if not (text.isascii() and text.isdigit() and int(text) <= 100):
            self.problems.append(f"{name} is {text!r}: expected a whole number from 0 to 100")
            return default / 100
        return int(text) / 100

    def count(self, name: str, default: int, *, least: int = 1, most: int = (1 << 20) - 1) -> int:
        text = self.text(name)
        if not text:
            return default
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(most))
        if not (is_number and least <= int(text) <= most):
            self.problems.append(
                f"{name} is {text!r}: expected a whole number from {least} to {most}"
            )
            return default
        return int(text)

    def rate(self, name: str) -> float | None:
        """Read how many a second; None if there is no limit."""
        text = self.text(name) or "0"
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value < 1e6:
            self.problems.append(f"{name} is {text!r}: expected a number from 0 to 1000000")
            return None
        return value or None
