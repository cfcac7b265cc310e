"""The ways into the kernel."""

from __future__ import annotations

from enum import StrEnum


class Backend(StrEnum):
    """A way of getting rules into the kernel."""

    NFT = "nft"
    """A table of our own, replaced in one transaction."""
    IPTABLES_NFT = "iptables-nft"
    IPTABLES_LEGACY = "iptables-legacy"
