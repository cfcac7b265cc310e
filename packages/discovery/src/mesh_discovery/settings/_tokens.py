"""Which tokens prove who a caller is: read of flags, or of Istio's variable JWT_RULE."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mesh_discovery.settings._reader import Reader
from mesh_lifecycle import check_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRule:
    """Which tokens prove an identity."""

    issuer: str
    audiences: tuple[str, ...]
    jwks_file: Path | None = None
    jwks: str = ""
    """The key set itself, when there is no file."""
    jwks_url: str = ""
    """Where to fetch the key set, when there is neither; empty: as the issuer's discovery says."""

    def __post_init__(self) -> None:
        check_fields(self)


class TokenFlags(Protocol):
    """The flags that are read here."""

    @property
    def jwks_file(self) -> Path | None: ...
    @property
    def jwks_url(self) -> str: ...
    @property
    def jwt_issuer(self) -> str: ...
    @property
    def jwt_audiences(self) -> tuple[str, ...]: ...


def read_tokens(flags: TokenFlags, reader: Reader) -> TokenRule | None:
    """Read which tokens are accepted, of flags or else JWT_RULE; the reader gathers mistakes."""
    if flags.jwks_url:
        return _fetched_keys(flags, reader)
    if flags.jwks_file is None and flags.jwt_issuer.startswith("https://"):
        return TokenRule(issuer=flags.jwt_issuer, audiences=flags.jwt_audiences)
    if flags.jwks_file is not None or flags.jwt_issuer:
        if flags.jwks_file is None or not flags.jwt_issuer:
            missing = "--jwt-issuer" if flags.jwks_file is not None else "--jwks-file"
            reader.problems.append(
                f"{missing} is missing: --jwks-file and --jwt-issuer go together"
            )
            return None
        if not reader.is_there(flags.jwks_file, os.path.isfile, name="--jwks-file"):
            reader.problems.append(f"--jwks-file {flags.jwks_file} is no file")
        return TokenRule(
            issuer=flags.jwt_issuer, audiences=flags.jwt_audiences, jwks_file=flags.jwks_file
        )
    rule = reader.text("JWT_RULE")
    return _jwt_rule(rule, flags.jwt_audiences, reader) if rule else None


def _fetched_keys(flags: TokenFlags, reader: Reader) -> TokenRule | None:
    if flags.jwks_file is not None:
        reader.problems.append("--jwks-url and --jwks-file are both given: leave one out")
    if not flags.jwt_issuer:
        reader.problems.append("--jwt-issuer is missing: --jwks-url needs it")
    return TokenRule(
        issuer=flags.jwt_issuer, audiences=flags.jwt_audiences, jwks_url=flags.jwks_url
    )


def _jwt_rule(text: str, audiences: tuple[str, ...], reader: Reader) -> TokenRule | None:
    """Read Istio's JWT rule: keys inline, in a file, by URL, or found by the issuer."""
    try:
        rule = json.loads(text)
    except ValueError:
        rule = None
    if not isinstance(rule, dict) or not isinstance(rule.get("issuer"), str):
        reader.problems.append("JWT_RULE: expected a JSON object with issuer and jwks or jwksUri")
        return None
    listed = rule.get("audiences") or list(audiences)
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        reader.problems.append("JWT_RULE: audiences must be a list of texts")
        return None
    uri = rule.get("jwksUri") or rule.get("jwks_uri") or ""
    inline = rule.get("jwks") or ""
    if isinstance(uri, str) and uri.startswith("file://"):
        return TokenRule(
            issuer=rule["issuer"],
            audiences=tuple(listed),
            jwks_file=Path(uri.removeprefix("file://")),
        )
    if isinstance(inline, str) and inline and not uri:
        return TokenRule(issuer=rule["issuer"], audiences=tuple(listed), jwks=inline)
    if isinstance(uri, str) and not inline and (uri or rule["issuer"].startswith("https://")):
        return TokenRule(issuer=rule["issuer"], audiences=tuple(listed), jwks_url=uri)
    reader.problems.append(
        "JWT_RULE: keys are read from jwks (inline), from jwksUri (file:// or https://), or "
        "found by an issuer that is an https:// URL; give one of them"
    )
    return None
