"""AuthorizationPolicy: which callers may do what at some workloads.

Envoy accepts or refuses a listener with all its policies, so that one wrong value would keep every
later change from it.

Source: Istio's API, security/v1, and its validation.
"""

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from istio_config.kinds.authorization_policy._conditions import Condition, condition_mistakes
from istio_config.kinds.authorization_policy._operations import (
    Operation,
    To,
    operation_mistakes,
    operation_warnings,
)
from istio_config.kinds.authorization_policy._sources import (
    From,
    Source,
    source_mistakes,
    source_warnings,
)
from istio_config.kinds.fields import SpecFields
from istio_config.kinds.kind import Kind
from istio_config.kinds.metadata import DRY_RUN, Metadata
from istio_config.kinds.selection import (
    Selection,
    TargetRef,
    WorkloadSelector,
    selection_mistakes,
    selection_of,
    selection_warnings,
)
from mesh_configfile.shapes import Finding

_TRUTHS = frozenset(
    {*("1", "t", "T", "TRUE", "true", "True"), *("0", "f", "F", "FALSE", "false", "False")}
)
"""The spellings of a truth value in Go, as Istio reads the annotation."""


class Action(StrEnum):
    """The treatment of a request that a rule matches."""

    ALLOW = "ALLOW"
    DENY = "DENY"
    AUDIT = "AUDIT"
    """It is noted for loggers, and neither allowed nor denied by that."""
    CUSTOM = "CUSTOM"
    """An external provider is asked."""


class Rule(SpecFields, frozen=True):
    """Callers, requests and conditions, all of which must match; those left out always do."""

    from_: tuple[From, ...] | None = msgspec.field(name="from", default=None)
    to: tuple[To, ...] | None = None
    when: tuple[Condition, ...] = ()


class Provider(SpecFields, frozen=True):
    """One of the mesh config's `extensionProviders`."""

    name: str = ""


class AuthorizationPolicySpec(SpecFields, frozen=True):
    """Which callers some workloads allow or deny, and for which requests."""

    selector: WorkloadSelector | None = None
    target_ref: TargetRef | None = None
    """The older way to give one of `target_refs`."""
    target_refs: tuple[TargetRef, ...] = ()
    rules: tuple[Rule, ...] = ()
    """Without any, nothing matches: an ALLOW policy then denies everything."""
    action: Action = Action.ALLOW
    provider: Provider | None = None

    @property
    def refs(self) -> tuple[TargetRef, ...]:
        """All Gateways that it refers to."""
        return self.target_refs if self.target_ref is None else (self.target_ref,)

    @property
    def selection(self) -> Selection:
        """The workloads that it is for."""
        return selection_of(self.selector, self.refs)


_OF_CONNECTIONS = {"ports", "not_ports"}
_OF_REQUESTS = {"request_principals", "not_request_principals"}


def _mistakes(spec: AuthorizationPolicySpec, metadata: Metadata) -> Iterator[Finding]:
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
    if (dry_run := metadata.annotations.get(DRY_RUN)) is not None:
        if spec.action in (Action.AUDIT, Action.CUSTOM):
            yield ("action",), f"can't be {spec.action} beside the annotation {DRY_RUN}"
        elif dry_run not in _TRUTHS:
            yield (), f'the annotation {DRY_RUN}: expected true or false, found "{dry_run}"'
    for index, rule in enumerate(spec.rules):
        for path, text in _rule_mistakes(rule, custom=custom):
            yield ("rules", index, *path), text


def _rule_mistakes(rule: Rule, *, custom: bool) -> Iterator[Finding]:
    for name, entries in (("from", rule.from_), ("to", rule.to)):
        if entries is not None and not entries:
            yield (name,), "is empty; leave it out if any is meant"
    for index, each in enumerate(rule.from_ or ()):
        yield from source_mistakes(each.source, ("from", index, "source"), custom=custom)
    for index, to in enumerate(rule.to or ()):
        yield from operation_mistakes(to.operation, ("to", index, "operation"))
    for index, condition in enumerate(rule.when):
        yield from condition_mistakes(condition, ("when", index), custom=custom)


def _warnings(spec: AuthorizationPolicySpec, metadata: Metadata) -> Iterator[Finding]:
    """Yield what is accepted and probably not meant; paths start below the spec."""
    del metadata
    yield from selection_warnings(spec.target_refs, spec.target_ref)
    if spec.selector is not None and not spec.selector.match_labels:
        yield ("selector",), "has no labels: it is for all workloads of the namespace"
    if spec.action is Action.AUDIT and not spec.rules:
        yield ("rules",), "an AUDIT policy without rules has no effect"
    for index, rule in enumerate(spec.rules):
        for path, text in _rule_warnings(rule):
            yield ("rules", index, *path), text
        if spec.action is Action.DENY and _looks_at_requests_alone(rule):
            yield (
                ("rules", index),
                (
                    "looks at nothing but requests, and so denies every connection to ports that "
                    "are not HTTP; add ports to its operations"
                ),
            )


def _rule_warnings(rule: Rule) -> Iterator[Finding]:
    for index, each in enumerate(rule.from_ or ()):
        if each.source is not None:
            yield from source_warnings(each.source, ("from", index, "source"))
    for index, to in enumerate(rule.to or ()):
        if to.operation is not None:
            yield from operation_warnings(to.operation, ("to", index, "operation"))


def _looks_at_requests_alone(rule: Rule) -> bool:
    """Return whether a rule looks at nothing that connections other than HTTP have.

    Istio leaves out what such connections do not have, and a DENY rule then matches all of them.
    """
    if rule.when or not (rule.from_ or rule.to):
        return False
    sources = [each.source for each in rule.from_ or () if each.source is not None]
    operations = [each.operation for each in rule.to or () if each.operation is not None]
    return all(_given(each) <= _OF_REQUESTS for each in sources) and all(
        not _given(each) & _OF_CONNECTIONS for each in operations
    )


def _given(fields: Source | Operation) -> set[str]:
    return {name for name in fields.__struct_fields__ if getattr(fields, name)}


AUTHORIZATION_POLICY = Kind(
    name="AuthorizationPolicy",
    group="security.istio.io",
    versions=("v1", "v1beta1"),
    spec=AuthorizationPolicySpec,
    validate=_mistakes,
    warn=_warnings,
)
