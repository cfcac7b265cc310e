"""A pull secret: the credentials for registries, as Docker's configuration has them.

https://kubernetes.io/docs/tasks/configure-pod-container/pull-image-private-registry/
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from wasm_modules._errors import FetchError
from wasm_modules.oci._reference import Reference, same_registry

_LONGEST = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The proof that is shown to a registry.

    identity_token: an OAuth refresh token, in place of a user's name and password.
    registry_token: a bearer token that the registry takes as it is.
    """

    user: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)
    registry_token: str = field(default="", repr=False)

    @property
    def basic(self) -> str:
        """The header Authorization; empty without a user."""
        if not self.user:
            return ""
        pair = f"{self.user}:{self.password}".encode()
        return "Basic " + base64.b64encode(pair).decode("ascii")


def credentials_for(reference: Reference, docker_config: str) -> Credentials | None:
    """Return the credentials for an image's registry; None if the secret has none for it.

    docker_config: the JSON of a `.dockerconfigjson`, or of the older `.dockercfg`.
    Raises FetchError for a text that is none; the error has nothing of it.
    """
    try:
        config = json.loads(docker_config) if len(docker_config) <= _LONGEST else None
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, Mapping):
        raise FetchError("the image pull secret is no Docker configuration in JSON")
    registries = config.get("auths", config)
    if not isinstance(registries, Mapping):
        raise FetchError("the image pull secret has no object 'auths'")
    entry = _entry_for(reference, registries)
    if entry is None:
        return None
    if not isinstance(entry, Mapping):
        raise FetchError(f"the image pull secret has no object for {reference.registry}")
    user, password = _text(entry, "username"), _text(entry, "password")
    if (pair := _text(entry, "auth")) and not user:
        user, password = _decoded(pair, reference.registry)
    return Credentials(
        user=user,
        password=password,
        identity_token=_text(entry, "identitytoken"),
        registry_token=_text(entry, "registrytoken"),
    )


def _entry_for(reference: Reference, registries: Mapping[str, object]) -> object:
    """Return the entry whose name says the most: one may be for a part of a registry only."""
    found: tuple[int, object] | None = None
    for name, entry in registries.items():
        bare = name.partition("://")[2] or name
        path = bare.partition("/")[2].rstrip("/")
        if not same_registry(name, reference.registry):
            continue
        if path in {"", "v1", "v2"}:
            path = ""
        elif not f"{reference.repository}/".startswith(f"{path}/"):
            continue
        if found is None or len(path) > found[0]:
            found = (len(path), entry)
    return None if found is None else found[1]


def _text(entry: Mapping[str, object], key: str) -> str:
    value = entry.get(key)
    return value if isinstance(value, str) else ""


def _decoded(pair: str, registry: str) -> tuple[str, str]:
    try:
        user, colon, password = base64.b64decode(pair, validate=True).decode().partition(":")
    except ValueError:  # no base64, or what is in it is no text
        colon = user = password = ""
    if not colon:
        raise FetchError(f"the image pull secret has an 'auth' for {registry} that is no base64")
    return user, password.rstrip("\0")
