"""Takes the name table out of the configuration stream and gives it to the DNS server."""

from collections.abc import Iterator
from typing import NamedTuple

from google.protobuf.message import DecodeError

import xds_proxy
from mesh_dnsproxy import DnsServer, NameEntry
from mesh_protos import type_urls
from mesh_protos.nds_pb2 import NameTable


class NameTableUpdates:
    """Gives the DNS server the name tables that the control plane sends."""

    type_url = type_urls.NAME_TABLE

    def __init__(self, server: DnsServer) -> None:
        self._server = server

    def apply(self, response: bytes) -> None:
        """Use the name table in a response; raises `InterceptorRefused` if it is none."""
        try:
            tables = tuple(
                NameTable.FromString(body) for body in xds_proxy.resource_bodies(response)
            )
        except DecodeError as error:
            raise xds_proxy.InterceptorRefused(f"no name table: {error}") from error
        self._server.set_table(_Tables(tables))

    apply_saved = apply


class _Tables(NamedTuple):
    """The tables of one response, read while they are compiled; of one host the last counts."""

    tables: tuple[NameTable, ...]

    def items(self) -> Iterator[tuple[str, NameEntry]]:
        for table in self.tables:
            for host, info in table.table.items():
                entry = NameEntry(
                    addresses=tuple(info.ips),
                    registry=info.registry,
                    short_name=info.shortname,
                    namespace=info.namespace,
                    alternate_hosts=tuple(info.alt_hosts),
                )
                yield host, entry
