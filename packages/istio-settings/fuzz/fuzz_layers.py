"""Any text as a layer of ProxyConfig, as files of the downward API, as a mesh config."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from istio_settings import (
    LayerError,
    MergeError,
    is_address,
    merge_layers,
    parse_downward_file,
    parse_layer,
)


def check(data: bytes) -> None:
    """Layers are read and merged, or refused in words; a file of labels always has a result."""
    kind, text = data[:1], data[1:].decode("utf-8", "surrogateescape")
    if kind == b"d":
        found = parse_downward_file(text)
        assert all(isinstance(each, str) for pair in found.items() for each in pair)
        is_address(text)
        return
    with suppress(LayerError):
        layer = parse_layer("annotation", text)
        with suppress(MergeError):
            merge_layers([parse_layer("defaults", "concurrency: 2"), layer])


def originals() -> Iterator[bytes]:
    """What pods and meshes have."""
    yield (
        b'l{"concurrency":0,"drainDuration":"45s","proxyMetadata":{"ISTIO_META_DNS_CAPTURE":"true"},'
        b'"tracing":{"zipkin":{"address":"zipkin:9411"},"sampling":100}}'
    )
    yield b"lholdApplicationUntilProxyStarts: true\nterminationDrainDuration: 20s\nstatusPort: 1\n"
    yield b"lproxyStatsMatcher:\n  inclusionRegexps: ['.*']\nimage: {imageType: x}\nextra: [1]\n"
    yield b'dapp="web"\nversion="v1"\nexample.io/config.source="api"\nodd\nx="a\\nb\\u00e4\\x41"\n'
