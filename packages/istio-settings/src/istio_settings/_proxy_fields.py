"""The proxy configuration's nested objects, read field by field.

A wrong field becomes a problem, a sentence that names the layer and the whole path, and its
default is returned: reading goes on, so that all problems are reported at once.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Self

from istio_settings._json import JSON
from istio_settings._layers import LayerField
from istio_settings._proxy_config import ProxyConfig


class Fields:
    """The fields of one object, which stands at `place`."""

    def __init__(
        self, values: Mapping[str, JSON], *, place: LayerField, problems: list[str]
    ) -> None:
        self.place = place
        self._values = values
        self._problems = problems

    @classmethod
    def top_level(cls, proxy: ProxyConfig, key: str, problems: list[str]) -> Self | None:
        """Return a top-level object of the proxy configuration; None if it is not given."""
        values = proxy.merged.get(key)
        if not isinstance(values, Mapping):
            return None
        return cls(values, place=proxy.place(key), problems=problems)

    def complain(self, key: str, what: str) -> None:
        self._problems.append(f"{self.place.below(key)} {what}")

    def given(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those of the names that are given."""
        return tuple(name for name in names if self._values.get(name) is not None)

    def expect_only(self, *known: str) -> None:
        for key in self._values:
            if key not in known:
                self.complain(key, f"is not known, there are {', '.join(known)}")

    def value(self, key: str) -> JSON:
        return self._values.get(key)

    def text(self, key: str) -> str:
        value = self._values.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            self._refuse(key, "text")
            return ""
        return value

    def required_text(self, key: str) -> str:
        if not (text := self.text(key)) and not self._values.get(key):
            self.complain(key, "is missing")
        return text

    def texts(self, key: str) -> tuple[str, ...]:
        value = self._values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            self._refuse(key, "a list of texts")
            return ()
        return tuple(str(item) for item in value)

    def flag(self, key: str) -> bool:
        value = self._values.get(key)
        if value is not None and not isinstance(value, bool):
            self._refuse(key, "true or false")
        return value is True

    def number_between(self, key: str, low: float, high: float) -> float | None:
        value = self._values.get(key)
        if value is None:
            return None
        number = value if isinstance(value, int | float) else math.nan
        # Compared before it is converted: an integer may be larger than any float.
        if isinstance(value, bool) or not low <= number <= high:
            self._refuse(key, f"a number between {low:g} and {high:g}")
            return None
        return float(number)

    def part(self, key: str) -> Self | None:
        """Return an object below this one; None if it is not given."""
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self._refuse(key, "an object")
            return None
        return type(self)(value, place=self.place.below(key), problems=self._problems)

    def _refuse(self, key: str, wanted: str) -> None:
        self.complain(key, f"is {self._values[key]!r}, it must be {wanted}")
