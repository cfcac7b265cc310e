"""Reads the files of one secret and decides whether their content may be published.

Files that are not valid leave the last good secret in place, with the reason beside it.
"""

import os
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import assert_never

import msgspec
from msgspec.structs import replace

from certclient._errors import CertClientError, InvalidPem, SourceUnavailable
from certclient.files._own_output import OwnOutput
from certclient.files._secret_names import (
    PairFiles,
    RevocationFile,
    RootFile,
    SecretFiles,
    paths_of,
)
from certclient.x509._pem import (
    MAX_PEM_BYTES,
    KeyPair,
    RevocationLists,
    Roots,
    is_unfinished,
    read_pair,
    read_revocation_lists,
    read_roots,
)
from mesh_filewatch import read_bytes
from mesh_lifecycle import Clock

UNFINISHED_S = 2.0
"""A bundle that ends within a certificate is probably being written. For this long it is not
used."""

Secret = KeyPair | Roots | RevocationLists


class FileState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one name: the last good secret, and what is wrong with its files now."""

    secret: Secret | None = None
    error: str | None = None


class SecretReader:
    """Reads secrets, in threads; remembers since when bundles are unfinished."""

    def __init__(self, clock: Clock, output_directory: Path | None) -> None:
        self._clock = clock
        self._own_output = OwnOutput(output_directory)
        self._unfinished_since: dict[str, float] = {}
        self._accepted_unfinished: dict[str, bytes] = {}

    @property
    def waits_for_writer(self) -> bool:
        """Whether a bundle is unfinished, so that it must be read again soon."""
        return bool(self._unfinished_since)

    def forget_all_but(self, names: Collection[str]) -> None:
        """Forget the unfinished bundles of all other names."""
        for known in (self._unfinished_since, self._accepted_unfinished):
            for name in known.keys() - set(names):
                known.pop(name, None)

    def state(self, name: str, files: SecretFiles, before: FileState | None) -> FileState:
        """Read the files of a name and return its state; `before` is the last one."""
        before = before or FileState()
        try:
            secret = self._secret(name, files)
        except CertClientError as error:
            return replace(before, error=str(error))
        if isinstance(secret, KeyPair) and isinstance(before.secret, KeyPair):
            # The same chain with its key in another encoding is no change.
            same = secret.chain_pem == before.secret.chain_pem
            return FileState(secret=before.secret if same else secret)
        return FileState(secret=secret)

    def _secret(self, name: str, files: SecretFiles) -> Secret:
        try:
            match files:
                case PairFiles(certificate, key):
                    # The two files are read one after the other, so they may be of two states.
                    # Then the key does not fit, or an event follows that makes them be read again.
                    return read_pair(
                        self._content(certificate), self._content(key), now=self._now()
                    )
                case RootFile(root, others):
                    content = self._content(_first_existing((root, *others)))
                    self._check_finished(name, content)
                    return read_roots(content, now=self._now())
                case RevocationFile(crl):
                    return read_revocation_lists(self._content(crl))
                case _:
                    assert_never(files)
        except InvalidPem as error:
            shown = " and ".join(map(str, paths_of(files)))
            raise InvalidPem(f"{shown}: {error}") from error

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now(), UTC)

    def _check_finished(self, name: str, content: bytes) -> None:
        """Raise InvalidPem for a bundle that is being written, for at most UNFINISHED_S."""
        if not is_unfinished(content) or self._accepted_unfinished.get(name) == content:
            self._unfinished_since.pop(name, None)
            return
        since = self._unfinished_since.setdefault(name, self._clock.monotonic())
        if self._clock.monotonic() - since < UNFINISHED_S:
            raise InvalidPem("the last certificate is cut short")
        # It is not being written any more: use its whole certificates, as Envoy and Istio do.
        self._unfinished_since.pop(name, None)
        self._accepted_unfinished[name] = content

    def _content(self, path: Path) -> bytes:
        if self._own_output.has(path):
            raise SourceUnavailable(f"{path} is our own output, which is never taken as input")
        return _content(path)


def _first_existing(paths: tuple[Path, ...]) -> Path:
    return paths[0] if len(paths) == 1 else next(filter(os.path.isfile, paths), paths[0])


def _content(path: Path) -> bytes:
    try:
        content = read_bytes(path, max_bytes=MAX_PEM_BYTES)
    except FileNotFoundError as error:
        raise SourceUnavailable(f"{path} does not exist") from error
    except OSError as error:
        raise SourceUnavailable(f"{path} cannot be read: {error.strerror}") from error
    if not content:
        raise SourceUnavailable(f"{path} is empty")
    return content
