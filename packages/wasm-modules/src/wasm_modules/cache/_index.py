"""The index of the modules of one name: which file a reference or a digest leads to.

It is a file beside the modules, so that it survives a restart.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TypeVar

_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_MOST = 256

T = TypeVar("T")


@dataclass(slots=True)
class Index:
    """The modules of one name.

    digests: of what a module came in, such as an archive or a manifest, to the module's SHA-256.
    references: a full URL to the module that it led to last, and the version of the resource that
        asked.
    """

    name: str
    digests: dict[str, str] = field(default_factory=dict)
    references: dict[str, tuple[str, str]] = field(default_factory=dict)

    def add(
        self, module: str, *, digests: frozenset[str], reference: str, resource_version: str
    ) -> None:
        """Remember a module that was fetched."""
        for digest in sorted(digests):
            _put(self.digests, digest, module)
        _put(self.references, reference, (module, resource_version))

    def remove(self, module: str) -> None:
        """Forget a module."""
        self.digests = {key: each for key, each in self.digests.items() if each != module}
        self.references = {key: each for key, each in self.references.items() if each[0] != module}

    def to_json(self) -> bytes:
        """Return the content of the file."""
        content = {"name": self.name, "digests": self.digests, "references": self.references}
        return json.dumps(content, indent=1).encode()

    @classmethod
    def from_json(cls, content: bytes) -> Index | None:
        """Read the content of a file; None if it is damaged."""
        try:
            read = json.loads(content)
            return cls(
                str(read["name"]),
                {str(key): _module(each) for key, each in dict(read["digests"]).items()},
                {
                    str(key): (_module(module), str(version))
                    for key, (module, version) in dict(read["references"]).items()
                },
            )
        except (ValueError, TypeError, LookupError, RecursionError, AttributeError):
            return None


def _module(text: object) -> str:
    """Return a SHA-256; it becomes the name of a file."""
    if not isinstance(text, str) or not _SHA256.match(text):
        raise ValueError("no SHA-256")
    return text


def _put(entries: dict[str, T], key: str, value: T) -> None:
    entries.pop(key, None)
    entries[key] = value
    while len(entries) > _MOST:
        del entries[next(iter(entries))]
