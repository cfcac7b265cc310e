"""Public keys that verify tokens, from a JSON Web Key Set (RFC 7517)."""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from mesh_ca._errors import StorageError
from mesh_ca._files import fetch_file
from mesh_ca.authority._keys import PublicKey, UnacceptableKey, accepted_public_key
from mesh_filewatch import FileStat, ReadTimedOut, file_stat, run_in_thread

log = logging.getLogger("mesh_ca")

_MAX_KEYS = 64
_REREAD_AFTER_S = 1.0
_LOOK_AFTER_S = 0.2
"""A `stat` of the file takes a thread, and many calls may come at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationKey:
    """A public key and the one algorithm for which it is used."""

    kid: str | None
    algorithm: str  # RS256 or ES256
    key: PublicKey


class VerificationKeys(Protocol):
    """Finds the keys that a JwtAuthenticator verifies tokens with."""

    async def find(self, kid: str | None) -> Sequence[VerificationKey]:
        """Return the keys of this id, all keys for None; empty if there is none."""
        ...


def parse_jwks(text: bytes) -> tuple[VerificationKey, ...]:
    """Return the usable keys of a key set: RSA of 2048 bits or more, and P-256.

    Other keys are left out. Raises StorageError if it is no key set or no key is usable.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StorageError("not JSON") from error
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise StorageError('not a key set, {"keys": [...]} is right')
    if len(entries) > _MAX_KEYS:
        raise StorageError(f"{len(entries)} keys, {_MAX_KEYS} are allowed")
    keys = []
    for entry in entries:
        try:
            keys.append(_verification_key(entry))
        except StorageError as error:
            log.warning("key of a key set left out", extra={"reason": str(error)})
    if not keys:
        raise StorageError("no key that RS256 or ES256 signatures can be checked with")
    return tuple(keys)


class JwksSource:
    """Keys from a file, which is read again when it has changed, and when a key id is unknown.

    A file that can't be used leaves the keys as they were; until a first key was read, `find`
    raises StorageError.
    """

    def __init__(self, file: Path, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Read `file` from the first use on; `monotonic` bounds rereading to once a second."""
        self._file = file
        self._monotonic = monotonic
        self._keys: tuple[VerificationKey, ...] = ()
        self._seen: FileStat | None = None
        self._problem = ""
        self._read_at = float("-inf")
        self._looked_at = float("-inf")
        self._looking = asyncio.Lock()

    async def find(self, kid: str | None) -> Sequence[VerificationKey]:
        """Return the keys of this id, all keys for None."""
        await self._refresh(forced=False)
        found = self._matching(kid)
        if not found:
            # The file may have changed without a change of its size and time. Any client may send
            # an unknown id, so the file is read once a second at most.
            await self._refresh(forced=True)
            found = self._matching(kid)
        return found

    def _matching(self, kid: str | None) -> tuple[VerificationKey, ...]:
        return tuple(key for key in self._keys if kid is None or key.kid == kid)

    async def _refresh(self, *, forced: bool) -> None:
        if not forced and self._was_looked_at():
            return
        async with self._looking:  # callers that come meanwhile have what is read for the first
            if not forced and self._was_looked_at():
                return
            await self._look(forced=forced)

    def _was_looked_at(self) -> bool:
        return bool(self._keys) and self._monotonic() - self._looked_at < _LOOK_AFTER_S

    async def _look(self, *, forced: bool) -> None:
        now = self._monotonic()
        seen = await self._stamp()
        self._looked_at = now
        again = (forced or not self._keys) and now - self._read_at >= _REREAD_AFTER_S
        if seen == self._seen and not again:
            if not self._keys:
                raise StorageError(self._problem)
            return
        try:
            self._keys = parse_jwks(await fetch_file(self._file))
            self._seen, self._read_at = seen, now
        except StorageError as error:
            self._seen, self._read_at = seen, now
            text = str(error)
            self._problem = text if str(self._file) in text else f"{self._file}: {text}"
            if not self._keys:
                raise StorageError(self._problem) from error
            log.warning(
                "key set not usable, the last good keys stay", extra={"reason": self._problem}
            )

    async def _stamp(self) -> FileStat | None:
        look = partial(file_stat, self._file)
        try:
            return await run_in_thread(look, path=self._file, key=("stamp", str(self._file)))
        except ReadTimedOut as error:
            if not self._keys:
                raise StorageError(str(error)) from error
            return self._seen


def _verification_key(entry: object) -> VerificationKey:
    """Return the key of one entry; raises StorageError with the reason why it is not used."""
    if not isinstance(entry, dict):
        raise StorageError("not an object")
    kid = entry.get("kid")
    if kid is not None and not isinstance(kid, str):
        raise StorageError("kid is not a string")
    if "d" in entry or "k" in entry:
        raise StorageError("it holds a private or shared key, which has no place in a key set")
    if entry.get("use", "sig") != "sig":
        raise StorageError("not for signatures")
    algorithm = {"RSA": "RS256", "EC": "ES256"}.get(str(entry.get("kty")))
    if algorithm is None or entry.get("alg", algorithm) != algorithm:
        raise StorageError("neither RS256 nor ES256")
    try:
        key = PyJWK(entry, algorithm).key
    except (PyJWTError, ValueError, TypeError, KeyError) as error:
        raise StorageError("its numbers make no key") from error
    if not isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey):
        raise StorageError("neither RS256 nor ES256")
    try:
        accepted_public_key(key)
    except UnacceptableKey as error:
        raise StorageError(str(error)) from error
    if isinstance(key, ec.EllipticCurvePublicKey) and not isinstance(key.curve, ec.SECP256R1):
        raise StorageError(f"ES256 needs a key on P-256, not {key.curve.name}")
    return VerificationKey(kid=kid, algorithm=algorithm, key=key)
