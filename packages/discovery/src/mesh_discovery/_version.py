"""The version of this distribution."""

from functools import cache
from importlib import metadata


@cache
def version() -> str:
    """Return the installed version, or `source` when run from a source tree."""
    try:
        return metadata.version("mesh-discovery")
    except metadata.PackageNotFoundError:
        return "source"
