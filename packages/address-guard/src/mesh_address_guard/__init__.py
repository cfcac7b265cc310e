"""Which addresses an outbound request may go to, where somebody else names the target.

A program reaches more than the person does who names a URL for it: above all the metadata services
of clouds, which give credentials to any caller, and what listens for this machine alone.
`fetch_bounded` is a request that keeps to it; what it needs is loaded when it is first used.
"""

from importlib import import_module

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
    from mesh_address_guard._bounded_fetch import (
        BadAnswer,
        ConnectFailed,
        FetchedAnswer,
        FetchFailed,
        NotVerified,
        fetch_bounded,
    )

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
    # a request
    "FetchedAnswer",
    "fetch_bounded",
    # its errors
    "BadAnswer",
    "ConnectFailed",
    "FetchFailed",
    "NotVerified",
]

if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}._bounded_fetch"), name)
