"""Any bytes as a file of saved configuration: refused, or read rightly behind its digest.

The digest stands in the way of a fuzzer, so the first byte says what the others are: a whole file,
or a header or a body around which a file with a digest that fits is put.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from mesh_protowire import WireError, bytes_field, string_field
from xds_proxy.protocol._dialect import DELTA, STATE_OF_THE_WORLD
from xds_proxy.protocol._resources import Resource, resources_of, write_response
from xds_proxy.saved._file import Entry, FileList, UnusableFile, decode, encode

_TYPE = "type.googleapis.com/envoy.config.cluster.v3.Cluster"


def check(data: bytes) -> None:
    """A file is refused with UnusableFile, its resources with WireError."""
    kind, content = data[:1], data[1:]
    try:
        if kind == b"h":
            try:
                header = json.loads(content)
            except (ValueError, RecursionError):
                return
            if not isinstance(header, dict):
                return
            content = b"".join(encode(header, []).parts)
        elif kind == b"b":
            content = b"".join(encode({}, [content]).parts)
        file = decode(content)
        resources_of(DELTA, file.body)
        listed = FileList.parse(file.header)
        assert all(isinstance(each, Entry) for each in listed.types.values())
    except (UnusableFile, WireError) as error:
        assert str(error)


def originals() -> Iterator[bytes]:
    """A list of files, a type's file, and both cut short."""
    entry = Entry("clusters", "0" * 64, 3, 900, "7")
    listed = FileList({"node id": "a"}, ("istiod:15012",), "1.40.0", 1.8e9, {_TYPE: entry})
    resources = [
        Resource(f"{each}", "", string_field(1, _TYPE) + bytes_field(2, string_field(1, f"{each}")))
        for each in range(3)
    ]
    written = {
        dialect: write_response(
            dialect, type_url=_TYPE, version="7", nonce="n", resources=resources
        )
        for dialect in (STATE_OF_THE_WORLD, DELTA)
    }
    yield b"h" + json.dumps(listed.header()).encode()
    for body in written.values():
        yield b"b" + body
        whole = b"".join(encode(listed.header(), [body]).parts)
        yield b"f" + whole
        yield b"f" + whole[: len(whole) // 2]
