"""The version of this distribution."""

from importlib import metadata


def version() -> str:
    """Return the installed version, or `source` when run from a source tree."""
    try:
        return metadata.version("mesh-discovery")
    except metadata.PackageNotFoundError:
        return "source"
