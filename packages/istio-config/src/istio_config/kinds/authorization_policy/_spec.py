"""The fields of an AuthorizationPolicy.

Fields of a source, and of an operation, all have to match; of the values of one field, any. Those
that begin with `not` must not match.

Source: Istio's API, security/v1.
"""

from enum import StrEnum
from typing import TypeAlias

import msgspec

from istio_config.kinds.fields import SpecFields
from istio_config.kinds.selection import Selection, TargetRef, WorkloadSelector, selection_of

Values: TypeAlias = tuple[str, ...]
DRY_RUN = "istio.io/dry-run"
"""The annotation of policies that are tried out."""


class Action(StrEnum):
    """The treatment of a request that a rule matches."""

    ALLOW = "ALLOW"
    DENY = "DENY"
    AUDIT = "AUDIT"
    """It is marked, for loggers; it is neither allowed nor denied by that."""
    CUSTOM = "CUSTOM"
    """An external provider is asked."""


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
    """One sort of callers."""

    source: Source | None = None


class Operation(SpecFields, frozen=True):
    """The requests that a rule is about."""

    hosts: Values = ()
    not_hosts: Values = ()
    ports: Values = ()
    not_ports: Values = ()
    methods: Values = ()
    not_methods: Values = ()
    paths: Values = ()
    not_paths: Values = ()


class To(SpecFields, frozen=True):
    """One sort of requests."""

    operation: Operation | None = None


class Condition(SpecFields, frozen=True):
    """A further condition, on an attribute of callers or requests (`_conditions`)."""

    key: str = ""
    values: Values = ()
    not_values: Values = ()


class Rule(SpecFields, frozen=True):
    """Callers and requests; what is left out is any. All conditions have to hold."""

    from_: tuple[From, ...] | None = msgspec.field(name="from", default=None)
    to: tuple[To, ...] | None = None
    when: tuple[Condition, ...] = ()


class Provider(SpecFields, frozen=True):
    """One of the mesh config's `extensionProviders`."""

    name: str = ""


class AuthorizationPolicySpec(SpecFields, frozen=True):
    """The callers that some workloads have, and their requests."""

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
