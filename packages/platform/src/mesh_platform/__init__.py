"""Which cloud this machine is on, and where in it: region, zone, and a few names.

`machine_provider` goes by the firmware's tables and sends nothing. `detect` asks the provider's
metadata server, and is loaded only when it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from mesh_platform._errors import NoMetadata
from mesh_platform._machine import PROVIDERS, Provider, machine_provider
from mesh_platform._platform import Platform

if TYPE_CHECKING:
    from mesh_platform._detection import MetadataServers, detect
    from mesh_platform._gcp import gcp_platform
    from mesh_platform._http import MetadataAddress

__all__ = [
    # the machine
    "PROVIDERS",
    "Provider",
    "machine_provider",
    # its place
    "MetadataAddress",
    "MetadataServers",
    "Platform",
    "detect",
    "gcp_platform",
    # errors
    "NoMetadata",
]

_LOADED_WHEN_USED = {
    "MetadataAddress": "_http",
    "MetadataServers": "_detection",
    "detect": "_detection",
    "gcp_platform": "_gcp",
}

if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> object:
        if (home := _LOADED_WHEN_USED.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        return value
