"""The tables that iptables-nft leaves behind, with chains and no rules."""

from __future__ import annotations

from mesh_traffic_capture.kernel import Command, run_program


def delete_if_empty(nft: str, family: str, table: str) -> None:
    """Delete a table if it has nothing but built-in chains that let everything pass."""
    listed = run_program(Command(arguments=(nft, "-j", "list", "table", family, table)))
    if listed.status == 0 and _is_empty(listed.output):
        run_program(Command(arguments=(nft, "delete", "table", family, table)))


def _is_empty(listed: str) -> bool:
    import json

    try:
        entries = json.loads(listed)["nftables"]
        for entry in entries:
            ((kind, value),) = entry.items()
            if kind == "chain" and value.get("policy") == "accept":
                continue
            if kind not in {"metainfo", "table"}:
                return False
    except (ValueError, KeyError, TypeError):
        return False
    return True
