"""Sources: the callers that a rule is about.

All fields that are given have to match; of the values of a field, one has to. Of a field that
begins with `not`, no value may match.

Source: Istio's API, security/v1.
"""

from collections.abc import Iterator

from istio_config.kinds.authorization_policy._values import (
    Values,
    address_mistakes,
    asterisk_warnings,
    service_account_mistakes,
    value_mistakes,
)
from istio_config.kinds.fields import SpecFields
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding


class Source(SpecFields, frozen=True):
    """The callers that a rule is about."""

    principals: Values = ()
    not_principals: Values = ()
    request_principals: Values = ()
    not_request_principals: Values = ()
    namespaces: Values = ()
    not_namespaces: Values = ()
    service_accounts: Values = ()
    not_service_accounts: Values = ()
    trust_domains: Values = ()
    not_trust_domains: Values = ()
    ip_blocks: Values = ()
    not_ip_blocks: Values = ()
    remote_ip_blocks: Values = ()
    not_remote_ip_blocks: Values = ()


class From(SpecFields, frozen=True):
    """An entry of `from`."""

    source: Source | None = None


_SOURCES = dict(zip(Source.__struct_encode_fields__, Source.__struct_fields__, strict=True))
_IDENTITIES = ("principals", "requestPrincipals", "namespaces", "serviceAccounts", "trustDomains")
_UNKNOWN_TO_CUSTOM = frozenset(
    name for each in _IDENTITIES for name in (each, f"not{each[0].upper()}{each[1:]}")
)
"""Istio's validation refuses them with CUSTOM: a provider is asked before the caller is known."""


def source_mistakes(source: Source | None, path: FieldPath, *, custom: bool) -> Iterator[Finding]:
    """Yield what is wrong with a source; custom: of a rule that asks a provider."""
    if source is None or source == Source():
        yield path, "is empty; say which callers, or leave out `from` if any is meant"
        return
    given = {name: getattr(source, field) for name, field in _SOURCES.items()}
    for name, values in given.items():
        if not values:
            continue
        yield from value_mistakes(values, (*path, name))
        if custom and name in _UNKNOWN_TO_CUSTOM:
            yield (
                (*path, name),
                "a CUSTOM rule can't look at it: the provider is asked before it is known",
            )
        if name.lower().endswith("ipblocks"):
            yield from address_mistakes(values, (*path, name))
    for name in ("serviceAccounts", "notServiceAccounts"):
        yield from service_account_mistakes(given[name], (*path, name))
    if source.service_accounts and (source.principals or source.namespaces):
        yield (*path, "serviceAccounts"), "can't stand beside principals or namespaces"
    if source.not_service_accounts and (source.not_principals or source.not_namespaces):
        yield (*path, "notServiceAccounts"), "can't stand beside notPrincipals or notNamespaces"


def source_warnings(source: Source, path: FieldPath) -> Iterator[Finding]:
    """Yield the values of a source that never match, or match something else than they seem to."""
    for name, values in (
        ("principals", source.principals),
        ("notPrincipals", source.not_principals),
    ):
        for index, each in enumerate(values):
            if each.startswith("spiffe://"):
                yield (
                    (*path, name, index),
                    f'"{each}" never matches: leave out "spiffe://", as in cluster.local/ns/a/sa/b',
                )
    for name, field in zip(source.__struct_encode_fields__, source.__struct_fields__, strict=True):
        if not name.lower().endswith(("namespaces", "trustdomains")):
            yield from asterisk_warnings(getattr(source, field), (*path, name))
