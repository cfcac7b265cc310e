"""Libraries that only the checks of some kinds need, which are extras of this package."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal


class MissingExtraError(Exception):
    """A check needs a library that is not installed; the message says which extra brings it."""


@contextmanager
def of_extra(name: Literal["envoy-filters", "keys"]) -> Iterator[None]:
    """Import modules that need an extra; raises `MissingExtraError` if it is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"can't be checked here: install istio-config[{name}], which brings {error.name}"
        ) from error
