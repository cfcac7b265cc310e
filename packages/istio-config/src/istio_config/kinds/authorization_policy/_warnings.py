"""Warnings of an AuthorizationPolicy: what is accepted as it is, and hardly meant so."""

from collections.abc import Iterator, Sequence

from istio_config.kinds.authorization_policy._path_templates import is_template
from istio_config.kinds.authorization_policy._spec import (
    DRY_RUN,
    Action,
    AuthorizationPolicySpec,
    Operation,
    Rule,
    Source,
)
from istio_config.kinds.metadata import Metadata
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding

_OF_CONNECTIONS = {"ports", "not_ports"}
_OF_REQUESTS = {"request_principals", "not_request_principals"}


def warnings(spec: AuthorizationPolicySpec, metadata: Metadata) -> Iterator[Finding]:
    """Yield the warnings; paths start below its spec."""
    if spec.selector is not None and not spec.selector.match_labels:
        yield ("selector",), "has no labels: it is for all workloads of the namespace"
    if spec.action is Action.AUDIT and not spec.rules:
        yield ("rules",), "an AUDIT policy without rules has no effect"
    if DRY_RUN in metadata.annotations and spec.action in (Action.AUDIT, Action.CUSTOM):
        yield ("action",), f"the annotation {DRY_RUN} has no effect with {spec.action}"
    for index, rule in enumerate(spec.rules):
        for path, text in _rule(rule):
            yield ("rules", index, *path), text
        if spec.action is Action.DENY and _looks_at_requests_alone(rule):
            yield (
                ("rules", index),
                (
                    "looks at nothing but requests, and so denies every connection to ports that "
                    "are not HTTP; add ports to its operations"
                ),
            )


def _rule(rule: Rule) -> Iterator[Finding]:
    for index, each in enumerate(rule.from_ or ()):
        if each.source is not None:
            yield from _source(each.source, ("from", index, "source"))
    for index, to in enumerate(rule.to or ()):
        if to.operation is not None:
            yield from _operation(to.operation, ("to", index, "operation"))


def _source(source: Source, path: FieldPath) -> Iterator[Finding]:
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
            yield from _asterisks(getattr(source, field), (*path, name))


def _operation(operation: Operation, path: FieldPath) -> Iterator[Finding]:
    for name, values in (("methods", operation.methods), ("notMethods", operation.not_methods)):
        for index, each in enumerate(values):
            if each != each.upper():
                yield (
                    (*path, name, index),
                    f'"{each}" never matches: methods are case-sensitive, write {each.upper()}',
                )
    for name, values in (("paths", operation.paths), ("notPaths", operation.not_paths)):
        for index, each in enumerate(values):
            if not each.startswith(("/", "*")):
                yield (*path, name, index), f'"{each}" never matches: paths begin with "/"'
            elif "?" in each:
                yield (*path, name, index), f'"{each}" never matches: queries are not looked at'
        yield from _asterisks([each for each in values if not is_template(each)], (*path, name))
    yield from _asterisks(operation.hosts, (*path, "hosts"))
    yield from _asterisks(operation.not_hosts, (*path, "notHosts"))


def _asterisks(values: Sequence[str], path: FieldPath) -> Iterator[Finding]:
    for index, each in enumerate(values):
        if "*" in each[1:-1] or (len(each) > 1 and each[0] == each[-1] == "*"):
            yield (
                (*path, index),
                (
                    f'"{each}" has "*" inside, which is taken as it is there: it stands for any '
                    "text only at the beginning or at the end"
                ),
            )


def _looks_at_requests_alone(rule: Rule) -> bool:
    """Return whether all that a rule looks at is left out where connections are not HTTP."""
    if rule.when or not (rule.from_ or rule.to):
        return False
    sources = [each.source for each in rule.from_ or () if each.source is not None]
    operations = [each.operation for each in rule.to or () if each.operation is not None]
    return all(_given(each) <= _OF_REQUESTS for each in sources) and all(
        not _given(each) & _OF_CONNECTIONS for each in operations
    )


def _given(fields: Source | Operation) -> set[str]:
    return {name for name in fields.__struct_fields__ if getattr(fields, name)}
