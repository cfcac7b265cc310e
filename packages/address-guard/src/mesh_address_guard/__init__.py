"""Which addresses an outbound request may go to, where somebody else names the target.

A program reaches more than the person does who names a URL for it: above all the metadata services
of clouds, which give credentials to any caller, and what listens for this machine alone.
`GuardedResolver`, for requests by aiohttp, needs `mesh-address-guard[aiohttp]`.
"""

from mesh_address_guard._address_guard import (
    METADATA,
    THIS_MACHINE,
    AddressBlocked,
    AddressGuard,
    IpNetwork,
    NotANetwork,
    parse_networks,
)

TYPE_CHECKING = False  # as type checkers know it, without loading `typing`
if TYPE_CHECKING:
    from mesh_address_guard._guarded_resolver import GuardedResolver

__all__ = [
    # the judgement
    "AddressBlocked",
    "AddressGuard",
    # networks
    "METADATA",
    "THIS_MACHINE",
    "IpNetwork",
    "NotANetwork",
    "parse_networks",
    # requests by aiohttp
    "GuardedResolver",
]

if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        if name != "GuardedResolver":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from mesh_address_guard._guarded_resolver import GuardedResolver

        return GuardedResolver
