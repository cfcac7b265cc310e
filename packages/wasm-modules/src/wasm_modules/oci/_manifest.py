"""Which layers of an image hold its module, and in which form.

https://github.com/opencontainers/image-spec/blob/main/manifest.md
https://github.com/solo-io/wasm/blob/master/spec/README.md
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from wasm_modules._errors import ManifestError

IMAGE_TYPES: Final = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
INDEX_TYPES: Final = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
ACCEPT: Final = ", ".join((*IMAGE_TYPES, *INDEX_TYPES))

MODULE_TYPES: Final = frozenset(
    {"application/vnd.module.wasm.content.layer.v1+wasm", "application/wasm"}
)
_MOST_LAYERS = 128
_MOST_PLATFORMS = 256
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})\Z")


class Layer(NamedTuple):
    """One layer; digest: SHA-256 of its bytes, in hex."""

    digest: str
    media_type: str
    size: int

    @property
    def is_module(self) -> bool:
        """Return whether the layer is the module itself, not an archive of files."""
        return self.media_type in MODULE_TYPES


def parse_manifest(body: bytes) -> Mapping[str, object]:
    """Return a manifest or an index as an object; raises ManifestError."""
    try:
        manifest = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ManifestError("the manifest is no JSON") from error
    if not isinstance(manifest, dict):
        raise ManifestError("the manifest is no object")
    return manifest


def is_index(manifest: Mapping[str, object], media_type: str) -> bool:
    """Return whether this lists images, one a platform, rather than layers."""
    declared = manifest.get("mediaType") or media_type
    return declared in INDEX_TYPES or (declared not in IMAGE_TYPES and "manifests" in manifest)


def image_of_index(index: Mapping[str, object]) -> str:
    """Return the digest of the image to take, in hex; raises ManifestError.

    Modules are for no processor, so any image would do: that of Wasm, that of linux/amd64, which
    builders make by default, or the first.
    """
    listed = index.get("manifests")
    if not isinstance(listed, list) or not listed or len(listed) > _MOST_PLATFORMS:
        raise ManifestError("the index lists no images, or too many")
    ranked = sorted((each for each in listed if isinstance(each, dict)), key=_rank)
    if not ranked:
        raise ManifestError("the index lists no images")
    return _digest(ranked[0])


def layers_of(manifest: Mapping[str, object]) -> Sequence[Layer]:
    """Return the layers in which the module is looked for, in that order; raises ManifestError.

    Of an artifact that is the one layer that is a module; of an image all, the uppermost first.
    """
    listed = manifest.get("layers")
    if not isinstance(listed, list) or not listed or len(listed) > _MOST_LAYERS:
        raise ManifestError("the manifest has no layers, or too many")
    layers = [_layer(each) for each in listed]
    modules = [each for each in layers if each.is_module]
    if len(modules) > 1:
        raise ManifestError("the manifest has more than one layer that is a Wasm module")
    return modules or layers[::-1]


def _layer(entry: object) -> Layer:
    if not isinstance(entry, dict):
        raise ManifestError("the manifest has a layer that is no object")
    media_type, size = entry.get("mediaType"), entry.get("size")
    return Layer(
        digest=_digest(entry),
        media_type=media_type if isinstance(media_type, str) else "",
        size=size if isinstance(size, int) and size >= 0 else 0,
    )


def _digest(entry: Mapping[str, object]) -> str:
    digest = entry.get("digest")
    found = _DIGEST.match(digest) if isinstance(digest, str) else None
    if found is None:
        raise ManifestError("the manifest has an entry without a digest of SHA-256")
    return found.group(1)


def _rank(entry: Mapping[str, object]) -> int:
    platform = entry.get("platform")
    if not isinstance(platform, dict):
        return 2
    system, processor = platform.get("os"), platform.get("architecture")
    if processor == "wasm" or system == "wasi":
        return 0
    if system == "unknown":  # BuildKit's attestations
        return 4
    return 1 if (system, processor) == ("linux", "amd64") else 3
