"""Two ways of writing the rules for the kernel and of reading them back, nft and iptables; pure."""

from mesh_traffic_capture.backends._iptables import (
    EMPTY_TABLES,
    IptablesRule,
    IptablesTable,
    has_own,
    own_record,
    own_records,
    own_rules,
    parse_save,
    render_intent,
    render_iptables,
    render_record_removal,
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
    render_nft_intent,
    render_nft_records,
    render_nft_removal,
    table_is,
    table_of,
)
from mesh_traffic_capture.backends._read_nft import read_rules
from mesh_traffic_capture.backends._record import INTENT, Record

__all__ = [
    "EMPTY_TABLES",
    "ISTIO_TABLES",
    "IptablesRule",
    "IptablesTable",
    "NftTable",
    "Record",
    "TABLE_NAME",
    "INTENT",
    "has_own",
    "own_records",
    "own_rules",
    "read_rules",
    "render_intent",
    "render_nft_intent",
    "render_nft_records",
    "render_record_removal",
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
    "table_of",
]
