"""Any bytes as what names an image, what a registry says, and what opens it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress

from mesh_protowire import WireError, bytes_field, string_field
from wasm_modules import EXTENSION_CONFIG, FetchError
from wasm_modules.cache._index import Index
from wasm_modules.fetching._url import Url
from wasm_modules.oci._challenge import challenges
from wasm_modules.oci._manifest import image_of_index, is_index, layers_of, parse_manifest
from wasm_modules.oci._pull_secret import credentials_for
from wasm_modules.oci._reference import Reference
from wasm_modules.rewriting._filter import read_filter

_IMAGE = Reference.parse("oci://registry.example/team/plugin:v1")


def check(data: bytes) -> None:
    """Each is read, or refused with its own error, in which no secret is."""
    kind, content = data[:1], data[1:]
    text = content.decode("utf-8", "surrogateescape")
    with suppress(FetchError, WireError):
        match kind:
            case b"u":
                url = Url.parse(text)
                assert 0 <= url.port < 1 << 16
                assert "\n" not in url.authority + url.target
            case b"r":
                Reference.parse(text)
            case b"c":
                challenges([text])
            case b"m":
                manifest = parse_manifest(content)
                if is_index(manifest, ""):
                    image_of_index(manifest)
                else:
                    layers_of(manifest)
            case b"s":
                credentials_for(_IMAGE, text)
            case b"i":
                Index.from_json(content)
            case _:
                read_filter(content)


def originals() -> Iterator[bytes]:
    """One of each, as they come."""
    yield b"uhttps://user:pw@example.com:8443/a%20b?c=d"
    yield b"uhttp://[::ffff:169.254.169.254]/latest"
    yield b"roci://registry.example:5000/team/plugin:v1@sha256:" + b"0" * 64
    yield b'cBearer realm="https://auth.example/token",service="x\\"y",scope="repository:a:pull"'
    layer = {"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "size": 3}
    layer["digest"] = "sha256:" + "0" * 64
    yield b"m" + json.dumps({"schemaVersion": 2, "layers": [layer]}).encode()
    yield b"m" + json.dumps({"manifests": [{**layer, "platform": {"os": "linux"}}]}).encode()
    yield b's{"auths":{"registry.example":{"auth":"dTpwdw=="},"https://index.docker.io/v1/":{}}}'
    yield b'i{"name":"a","digests":{"x":"y"},"references":{"r":["m","1"]}}'
    wasm = string_field(1, "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm")
    config = string_field(1, "name") + bytes_field(2, wasm + bytes_field(2, b"\x0a\x00"))
    yield b"f" + string_field(1, EXTENSION_CONFIG) + bytes_field(2, config)
