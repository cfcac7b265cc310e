"""The name of an image: registry, repository, and a tag or a digest.

https://github.com/distribution/reference
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from wasm_modules._errors import FetchError

SCHEME: Final = "oci://"
DOCKER_HUB: Final = "index.docker.io"
_DOCKER_HUB_NAMES = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})
_DOCKER_HUB_SERVER = "registry-1.docker.io"
LATEST: Final = "latest"

_REGISTRY = re.compile(r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?\Z")
_REPOSITORY = re.compile(r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*\Z")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\Z")
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})\Z")
_LONGEST = 1024


class Reference(NamedTuple):
    """An image.

    digest: SHA-256 of the manifest, in hex; empty if the reference has none.
    """

    registry: str
    repository: str
    tag: str
    digest: str

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Read `oci://REGISTRY/REPOSITORY[:TAG][@sha256:DIGEST]`; raises FetchError.

        As with Docker, a first part that is no host is part of a repository at Docker Hub.
        """
        shown = repr(text[:200])
        if len(text) > _LONGEST:
            raise FetchError(f"{shown} is too long for the name of an image")
        rest, at, digest = text.removeprefix(SCHEME).partition("@")
        found = _DIGEST.match(digest)
        if at and found is None:
            raise FetchError(f"{shown} has a digest that is not sha256: and 64 digits of hex")
        registry, slash, path = rest.partition("/")
        if not slash or not (registry == "localhost" or any(each in registry for each in ".:")):
            registry, path = DOCKER_HUB, rest
        repository, colon, tag = path.partition(":")
        if registry in _DOCKER_HUB_NAMES:
            registry = DOCKER_HUB
            repository = repository if "/" in repository else f"library/{repository}"
        if not _REGISTRY.match(registry) or not _REPOSITORY.match(repository):
            raise FetchError(f"{shown} is no image; oci://registry/repository:tag would be one")
        if colon and not _TAG.match(tag):
            raise FetchError(f"{shown} has a tag that no image can have")
        named = found.group(1) if found else ""
        return cls(registry, repository, tag or ("" if named else LATEST), named)

    @property
    def name(self) -> str:
        """The image without tag and digest."""
        return f"{SCHEME}{self.registry}/{self.repository}"

    @property
    def server(self) -> str:
        """The host, and port if it has one, that answers for the registry."""
        return _DOCKER_HUB_SERVER if self.registry == DOCKER_HUB else self.registry

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@sha256:{self.digest}" if self.digest else ""
        return self.name + tag + digest


def same_registry(named: str, registry: str) -> bool:
    """Return whether a name in a Docker configuration is that of a registry."""
    host = named.partition("://")[2] or named
    host = host.partition("/")[0].lower()
    return (DOCKER_HUB if host in _DOCKER_HUB_NAMES else host) == registry.lower()
