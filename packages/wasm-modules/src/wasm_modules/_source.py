"""A module that is asked for: where it is, what it must be, and how new."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from wasm_modules._errors import FetchError

_CHECKSUM = re.compile(r"[0-9a-f]{64}\Z")
_NO_CHECKSUM = "nil"


class PullPolicy(StrEnum):
    """Whether a module that was fetched before is fetched again, as of Istio's WasmPlugin.

    UNSPECIFIED is IF_NOT_PRESENT, but ALWAYS for an image with the tag `latest`.
    """

    UNSPECIFIED = ""
    IF_NOT_PRESENT = "IfNotPresent"
    ALWAYS = "Always"

    @classmethod
    def parse(cls, text: str) -> PullPolicy:
        """Return the policy of a name; UNSPECIFIED for any other text."""
        return next((each for each in cls if each.value == text), cls.UNSPECIFIED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleRequest:
    """A module that is asked for.

    url: http, https or oci.
    checksum: SHA-256 in hex: of the module or of the archive that holds it, or of the manifest of
        an image. Empty or `nil`: none.
    policy: what counts of a module without a checksum that was fetched before.
    resource_version: of the configuration that asks. With ALWAYS, a module is fetched once for
        each; empty: each time.
    pull_secret: Docker's configuration in JSON, for images; None: none.
    timeout_s: how long the caller waits; None: the configured time. The fetch goes on in the
        background for a while, so that a later request finds its module.
    """

    url: str
    checksum: str = ""
    policy: PullPolicy = PullPolicy.UNSPECIFIED
    resource_version: str = ""
    pull_secret: str | None = field(default=None, repr=False)
    timeout_s: float | None = None


def parse_checksum(text: str) -> str:
    """Return a checksum in lower case, empty for none; raises FetchError."""
    checksum = text.strip().lower().removeprefix("sha256:")
    if checksum in ("", _NO_CHECKSUM):
        return ""
    if not _CHECKSUM.match(checksum):
        raise FetchError(f"the checksum {text[:80]!r} is not SHA-256 in 64 digits of hex")
    return checksum
