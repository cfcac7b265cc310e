"""Two ways of writing the rules for the kernel and of reading them back, nft and iptables; pure."""

from mesh_traffic_capture.backends._iptables import (
    EMPTY_TABLES,
    IptablesRule,
    IptablesTable,
    own_record,
    parse_save,
    render_iptables,
    render_removal,
    rules_are,
)
from mesh_traffic_capture.backends._istio_residue import is_istio_chain, istio_marks, istio_rules
from mesh_traffic_capture.backends._nft import (
    ISTIO_TABLES,
    TABLE_NAME,
    NftTable,
    parse_table,
    render_nft,
    render_nft_removal,
    table_is,
)
from mesh_traffic_capture.backends._record import Record, digest

__all__ = [
    "EMPTY_TABLES",
    "ISTIO_TABLES",
    "IptablesRule",
    "IptablesTable",
    "NftTable",
    "Record",
    "TABLE_NAME",
    "digest",
    "is_istio_chain",
    "istio_marks",
    "istio_rules",
    "own_record",
    "parse_save",
    "parse_table",
    "render_iptables",
    "render_nft",
    "render_nft_removal",
    "render_removal",
    "rules_are",
    "table_is",
]
