"""The version of this distribution."""

from importlib import metadata


def version() -> str:
    """Return what is installed; run from a source tree it is not known."""
    try:
        return metadata.version("mesh-discovery")
    except metadata.PackageNotFoundError:
        return "source"
