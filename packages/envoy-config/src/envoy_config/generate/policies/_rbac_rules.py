"""One rule of an AuthorizationPolicy as one policy of Envoy's RBAC.

What can't be looked at somewhere must not widen what is allowed: there, a rule that allows is left
out as a whole, and from any other the condition alone, so that it matches more.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Flag, auto
from typing import NamedTuple, TypeVar

from envoy.config.core.v3 import extension_pb2
from envoy.config.rbac.v3 import rbac_pb2
from envoy.extensions.path.match.uri_template.v3 import uri_template_match_pb2
from envoy.type.matcher.v3 import path_pb2

from envoy_config.generate._messages import packed
from envoy_config.generate.policies import _rbac_values as values
from istio_config.kinds.authorization_policy import (
    OF_CALLERS,
    OF_REQUESTS,
    Attribute,
    Condition,
    ConditionKey,
    Operation,
    Rule,
    Source,
    Values,
    envoy_template,
    is_template,
    parse_key,
)

Permission, Principal = rbac_pb2.Permission, rbac_pb2.Principal
_T = TypeVar("_T", rbac_pb2.Permission, rbac_pb2.Principal)


class EnforcementPoint(Flag):
    """Where a rule is enforced, and so what it can look at."""

    REQUESTS_OF_ENVOY = 0
    CONNECTIONS = auto()
    """Nothing of requests is known."""
    PROXYLESS = auto()
    """gRPC programs refuse what they don't know: templates of paths, and names in TLS."""


class Meaning(NamedTuple):
    """All that a rule's meaning depends on, besides the rule.

    namespace: of the policy. allows: whether what it matches is allowed by it.
    """

    namespace: str
    trust_domains: Sequence[str]
    allows: bool
    point: EnforcementPoint = EnforcementPoint.REQUESTS_OF_ENVOY


class _Unknown(Exception):
    """A rule looks at something that can't be looked at, and must not match without it."""


def rbac_policy(rule: Rule, meaning: Meaning) -> rbac_pb2.Policy | None:
    """Return the policy of a rule; None if it has to be left out."""
    maker = _Maker(meaning)
    try:
        of_callers, of_called = maker.conditions(rule.when)
        principals = [
            _all((*maker.source(each.source), *of_callers), Principal)
            for each in rule.from_ or ()
            if each.source is not None
        ]
        permissions = [
            _all((*maker.operation(each.operation), *of_called), Permission)
            for each in rule.to or ()
            if each.operation is not None
        ]
    except _Unknown:
        return None
    return rbac_pb2.Policy(
        permissions=permissions or [_all(of_called, Permission)],
        principals=principals or [_all(of_callers, Principal)],
    )


class _Maker:
    def __init__(self, meaning: Meaning) -> None:
        self._meaning = meaning

    def source(self, source: Source) -> Iterator[rbac_pb2.Principal]:
        """Yield the principals of a source, all of which have to match."""
        domains, space = self._meaning.trust_domains, self._meaning.namespace
        yield from self._fields(
            source.principals,
            source.not_principals,
            lambda value: values.principals(value, domains),
        )
        yield from self._fields(
            source.request_principals,
            source.not_request_principals,
            _one(values.request_principal),
            of_requests=True,
        )
        yield from self._fields(source.namespaces, source.not_namespaces, _one(values.namespace))
        yield from self._fields(
            source.service_accounts,
            source.not_service_accounts,
            _one(lambda value: values.service_account(value, space)),
        )
        yield from self._fields(
            source.trust_domains,
            source.not_trust_domains,
            lambda value: values.trust_domain(value, domains),
        )
        yield from self._fields(source.ip_blocks, source.not_ip_blocks, _one(_direct_address))
        yield from self._fields(
            source.remote_ip_blocks, source.not_remote_ip_blocks, _one(_remote_address)
        )

    def operation(self, operation: Operation) -> Iterator[rbac_pb2.Permission]:
        """Yield the permissions of an operation, all of which have to match."""
        yield from self._fields(operation.hosts, operation.not_hosts, _one(_host), of_requests=True)
        yield from self._fields(
            operation.methods, operation.not_methods, _one(_method), of_requests=True
        )
        has_templates = any(map(is_template, (*operation.paths, *operation.not_paths)))
        if has_templates and EnforcementPoint.PROXYLESS in self._meaning.point:
            self._leave_out()
        else:
            yield from self._fields(
                operation.paths, operation.not_paths, _one(_path), of_requests=True
            )
        yield from self._fields(operation.ports, operation.not_ports, _one(_port))

    def conditions(
        self, conditions: Iterable[Condition]
    ) -> tuple[list[rbac_pb2.Principal], list[rbac_pb2.Permission]]:
        """Return what conditions say of callers, and of what is called."""
        of_callers: list[rbac_pb2.Principal] = []
        of_called: list[rbac_pb2.Permission] = []
        for each in conditions:
            key = parse_key(each.key)
            if key is None:  # validation refuses it
                self._leave_out()
            elif key.attribute in OF_CALLERS:
                of_callers += self._of_callers(each, key)
            else:
                of_called += self._of_called(each, key)
        return of_callers, of_called

    def _of_callers(self, condition: Condition, key: ConditionKey) -> Iterator[rbac_pb2.Principal]:
        domains, space = self._meaning.trust_domains, self._meaning.namespace
        makers: dict[Attribute, Callable[[str], Iterable[rbac_pb2.Principal]]] = {
            Attribute.SOURCE_IP: _one(_direct_address),
            Attribute.REMOTE_IP: _one(_remote_address),
            Attribute.NAMESPACE: _one(values.namespace),
            Attribute.PRINCIPAL: lambda value: values.principals(value, domains),
            Attribute.SERVICE_ACCOUNT: _one(lambda value: values.service_account(value, space)),
            Attribute.TRUST_DOMAIN: lambda value: values.trust_domain(value, domains),
            Attribute.REQUEST_PRINCIPAL: _one(values.request_principal),
            Attribute.AUDIENCES: _claim("aud"),
            Attribute.PRESENTER: _claim("azp"),
            Attribute.CLAIM: _claim(*key.names),
            Attribute.HEADER: _one(
                lambda value: Principal(header=values.header(key.names[0], value))
            ),
        }
        return self._fields(
            condition.values,
            condition.not_values,
            makers[key.attribute],
            of_requests=key.attribute in OF_REQUESTS,
        )

    def _of_called(self, condition: Condition, key: ConditionKey) -> Iterator[rbac_pb2.Permission]:
        if key.attribute is Attribute.SNI and EnforcementPoint.PROXYLESS in self._meaning.point:
            self._leave_out()
            return iter(())
        makers: dict[Attribute, Callable[[str], rbac_pb2.Permission]] = {
            Attribute.DESTINATION_IP: lambda value: Permission(
                destination_ip=values.addresses(value)
            ),
            Attribute.DESTINATION_PORT: _port,
            Attribute.SNI: lambda value: Permission(requested_server_name=values.text(value)),
            Attribute.FILTER_METADATA: lambda value: Permission(
                metadata=values.filter_metadata(key.names[0], key.names[1], value)
            ),
        }
        return self._fields(condition.values, condition.not_values, _one(makers[key.attribute]))

    def _fields(
        self,
        given: Values,
        not_given: Values,
        make: Callable[[str], Iterable[_T]],
        *,
        of_requests: bool = False,
    ) -> Iterator[_T]:
        """Yield that one of some values matches, and that none of others does."""
        if not given and not not_given:
            return
        if of_requests and EnforcementPoint.CONNECTIONS in self._meaning.point:
            self._leave_out()
            return
        if given:
            yield _any([each for value in given for each in make(value)])
        if not_given:
            yield _not(_any([each for value in not_given for each in make(value)]))

    def _leave_out(self) -> None:
        if self._meaning.allows:
            raise _Unknown


def _one(make: Callable[[str], _T]) -> Callable[[str], Iterable[_T]]:
    return lambda value: (make(value),)


def _claim(*path: str) -> Callable[[str], Iterable[rbac_pb2.Principal]]:
    return lambda value: (Principal(metadata=values.claim(path, value)),)


def _direct_address(value: str) -> rbac_pb2.Principal:
    return Principal(direct_remote_ip=values.addresses(value))


def _remote_address(value: str) -> rbac_pb2.Principal:
    return Principal(remote_ip=values.addresses(value))


def _host(value: str) -> rbac_pb2.Permission:
    return Permission(header=values.header(":authority", value, ignore_case=True))


def _method(value: str) -> rbac_pb2.Permission:
    return Permission(header=values.header(":method", value))


def _path(value: str) -> rbac_pb2.Permission:
    if not is_template(value):
        return Permission(url_path=path_pb2.PathMatcher(path=values.text(value)))
    config = uri_template_match_pb2.UriTemplateMatchConfig(path_template=envoy_template(value))
    return Permission(
        uri_template=extension_pb2.TypedExtensionConfig(
            name="envoy.path.match.uri_template.uri_template_matcher", typed_config=packed(config)
        )
    )


def _port(value: str) -> rbac_pb2.Permission:
    return Permission(destination_port=int(value))


def _any(each: Sequence[_T]) -> _T:
    first = each[0]
    if len(each) == 1:
        return first
    if isinstance(first, rbac_pb2.Permission):
        return Permission(or_rules=Permission.Set(rules=each))
    return Principal(or_ids=Principal.Set(ids=each))


def _all(each: Sequence[_T], kind: type[_T]) -> _T:
    if not each:
        return kind(any=True)
    if len(each) == 1:
        return each[0]
    if kind is rbac_pb2.Permission:
        return Permission(and_rules=Permission.Set(rules=each))
    return Principal(and_ids=Principal.Set(ids=each))


def _not(each: _T) -> _T:
    if isinstance(each, rbac_pb2.Permission):
        return Permission(not_rule=each)
    return Principal(not_id=each)
