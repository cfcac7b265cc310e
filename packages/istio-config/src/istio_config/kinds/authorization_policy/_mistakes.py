"""Mistakes of an AuthorizationPolicy.

Envoy takes all policies of a listener or none, so that one wrong value would keep every later
change from it.
"""

from collections.abc import Iterator, Sequence

from istio_config.addresses import is_ip
from istio_config.kinds.authorization_policy._conditions import (
    ADDRESSES,
    KEYS,
    OF_IDENTITIES,
    Attribute,
    parse_key,
)
from istio_config.kinds.authorization_policy._path_templates import is_template, template_mistake
from istio_config.kinds.authorization_policy._spec import (
    Action,
    AuthorizationPolicySpec,
    Condition,
    Operation,
    Rule,
    Source,
)
from istio_config.kinds.metadata import Metadata
from istio_config.kinds.selection import selection_mistakes
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding

_LONGEST_VALUE = 2048
"""Some are regular expressions at Envoy, which refuses whole listeners for too large a one."""
_MOST_SERVICE_ACCOUNTS = 16
_LONGEST_SERVICE_ACCOUNT = 320
_SOURCES = dict(zip(Source.__struct_encode_fields__, Source.__struct_fields__, strict=True))
_OPERATIONS = dict(
    zip(Operation.__struct_encode_fields__, Operation.__struct_fields__, strict=True)
)
_IDENTITIES = ("principals", "requestPrincipals", "namespaces", "serviceAccounts", "trustDomains")
_AFTER_CUSTOM = frozenset(
    name for each in _IDENTITIES for name in (each, f"not{each[0].upper()}{each[1:]}")
)


def mistakes(spec: AuthorizationPolicySpec, metadata: Metadata) -> Iterator[Finding]:
    """Yield what is wrong with an AuthorizationPolicy; paths start below its spec."""
    labels = spec.selector.match_labels if spec.selector is not None else None
    yield from selection_mistakes(
        labels, spec.target_refs, metadata.namespace, single=spec.target_ref
    )
    custom = spec.action is Action.CUSTOM
    if spec.action in (Action.DENY, Action.CUSTOM) and not spec.rules:
        yield (
            ("rules",),
            f'without rules a {spec.action} policy has no effect; "- {{}}" is a rule for all',
        )
    if custom and (spec.provider is None or not spec.provider.name):
        yield (
            ("provider",),
            "CUSTOM needs the name of one of the mesh config's extensionProviders",
        )
    if spec.provider is not None and not custom:
        yield ("provider",), f"is for the action CUSTOM, and this is {spec.action}"
    for index, rule in enumerate(spec.rules):
        for path, text in _rule(rule, custom=custom):
            yield ("rules", index, *path), text


def _rule(rule: Rule, *, custom: bool) -> Iterator[Finding]:
    for name, entries in (("from", rule.from_), ("to", rule.to)):
        if entries is not None and not entries:
            yield (name,), "is empty; leave it out if any is meant"
    for index, each in enumerate(rule.from_ or ()):
        yield from _source(each.source, ("from", index, "source"), custom=custom)
    for index, to in enumerate(rule.to or ()):
        yield from _operation(to.operation, ("to", index, "operation"))
    for index, condition in enumerate(rule.when):
        yield from _condition(condition, ("when", index), custom=custom)


def _source(source: Source | None, path: FieldPath, *, custom: bool) -> Iterator[Finding]:
    if source is None or source == Source():
        yield path, "is empty; say which callers, or leave out `from` if any is meant"
        return
    given = {name: getattr(source, field) for name, field in _SOURCES.items()}
    for name, values in given.items():
        if not values:
            continue
        yield from _empty(values, (*path, name))
        if custom and name in _AFTER_CUSTOM:
            yield (
                (*path, name),
                "a CUSTOM rule can't look at it: the provider is asked before it is known",
            )
        if name.lower().endswith("ipblocks"):
            yield from _addresses(values, (*path, name))
    for name in ("serviceAccounts", "notServiceAccounts"):
        yield from _service_accounts(given[name], (*path, name))
    if source.service_accounts and (source.principals or source.namespaces):
        yield (*path, "serviceAccounts"), "can't stand beside principals or namespaces"
    if source.not_service_accounts and (source.not_principals or source.not_namespaces):
        yield (*path, "notServiceAccounts"), "can't stand beside notPrincipals or notNamespaces"


def _operation(operation: Operation | None, path: FieldPath) -> Iterator[Finding]:
    if operation is None or operation == Operation():
        yield path, "is empty; say which requests, or leave out `to` if any is meant"
        return
    for name, field in _OPERATIONS.items():
        values = getattr(operation, field)
        yield from _empty(values, (*path, name))
        if name in ("ports", "notPorts"):
            yield from _ports(values, (*path, name))
        if name in ("paths", "notPaths"):
            for index, each in enumerate(values):
                text = template_mistake(each) if is_template(each) else None
                if text is not None:
                    yield (*path, name, index), text


def _condition(condition: Condition, path: FieldPath, *, custom: bool) -> Iterator[Finding]:
    key = parse_key(condition.key)
    if not condition.key:
        yield (*path, "key"), f"is missing; expected one of {', '.join(KEYS)}"
    elif key is None:
        yield (
            (*path, "key"),
            f'"{condition.key}" is not an attribute; expected one of {", ".join(KEYS)}',
        )
    if not condition.values and not condition.not_values:
        yield path, "has no values and no notValues"
    for name, values in (("values", condition.values), ("notValues", condition.not_values)):
        here = (*path, name)
        yield from _empty(values, here)
        if key is None:
            continue
        if key.attribute in ADDRESSES:
            yield from _addresses(values, here)
        elif key.attribute is Attribute.DESTINATION_PORT:
            yield from _ports(values, here)
        elif key.attribute is Attribute.SERVICE_ACCOUNT:
            yield from _service_accounts(values, here)
    if custom and key is not None and key.attribute in OF_IDENTITIES:
        yield (
            (*path, "key"),
            "a CUSTOM rule can't look at it: the provider is asked before it is known",
        )


def _empty(values: Sequence[str], path: FieldPath) -> Iterator[Finding]:
    for index, each in enumerate(values):
        if not each:
            yield (*path, index), 'is empty; "*" stands for any value'
        elif len(each) > _LONGEST_VALUE:
            yield (*path, index), f"is longer than {_LONGEST_VALUE} characters"


def _addresses(values: Sequence[str], path: FieldPath) -> Iterator[Finding]:
    for index, each in enumerate(values):
        if each and not _is_range(each):
            yield (*path, index), f'"{each}" is not an address or a range such as 10.0.0.0/8'


def _is_range(text: str) -> bool:
    """Return whether this is an address or a range; bits below the prefix mean nothing."""
    address, slash, length = text.partition("/")
    if not is_ip(address):
        return False
    most = 128 if ":" in address else 32
    return not slash or (length.isascii() and length.isdigit() and int(length) <= most)


def _ports(values: Sequence[str], path: FieldPath) -> Iterator[Finding]:
    for index, each in enumerate(values):
        if each and not (each.isascii() and each.isdigit() and 1 <= int(each) <= 65535):
            yield (*path, index), f'"{each}" is not a port; expected a number from 1 to 65535'


def _service_accounts(values: Sequence[str], path: FieldPath) -> Iterator[Finding]:
    if len(values) > _MOST_SERVICE_ACCOUNTS:
        yield path, f"has {len(values)} values; {_MOST_SERVICE_ACCOUNTS} are the most"
    for index, each in enumerate(values):
        namespace, slash, name = each.rpartition("/")
        if not each:
            continue
        if "*" in each:
            yield (*path, index), f'"{each}" has a wildcard; service accounts are named exactly'
        elif not name or "/" in namespace or (slash and not namespace):
            yield (*path, index), f'"{each}" is not NAME or NAMESPACE/NAME'
        elif len(each) > _LONGEST_SERVICE_ACCOUNT:
            yield (*path, index), f"is longer than {_LONGEST_SERVICE_ACCOUNT} characters"
