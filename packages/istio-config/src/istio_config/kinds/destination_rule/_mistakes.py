"""Mistakes and warnings of DestinationRules: what must hold between their fields."""

from collections.abc import Iterator

from istio_config.addresses import is_host, is_ip
from istio_config.kinds.checks import (
    export_to_mistakes,
    is_dns_label,
    is_wildcard_host,
    label_mistakes,
    percent_mistake,
)
from istio_config.kinds.destination_rule._client_tls import ClientTls, ClientTlsMode
from istio_config.kinds.destination_rule._durations import duration_mistakes
from istio_config.kinds.destination_rule._lb_mistakes import (
    load_balancer_mistakes,
    load_balancer_warnings,
)
from istio_config.kinds.destination_rule._pool_mistakes import (
    outlier_mistakes,
    outlier_warnings,
    pool_mistakes,
)
from istio_config.kinds.destination_rule._spec import (
    DestinationRuleSpec,
    PortTrafficPolicy,
    TrafficPolicy,
    Tunnel,
)
from istio_config.kinds.metadata import Metadata
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding


def mistakes(spec: DestinationRuleSpec, metadata: Metadata) -> Iterator[Finding]:
    """Yield what is wrong with a rule; paths start below its spec."""
    if not spec.host:
        yield (), "the field host is missing"
    elif not is_wildcard_host(spec.host):
        yield (
            ("host",),
            f'"{spec.host}" is not a host name; write it like reviews.example.com or *.example.com',
        )
    yield from export_to_mistakes(spec.export_to, metadata.namespace)
    if spec.workload_selector is not None and not _is_private(spec, metadata):
        yield (
            ("exportTo",),
            (
                "a rule with a workloadSelector is for its own namespace alone; remove exportTo, "
                'or write "."'
            ),
        )
    if spec.workload_selector is not None:
        yield from label_mistakes(
            spec.workload_selector.match_labels, ("workloadSelector", "matchLabels")
        )
    for path, policy in _policies(spec):
        for inner, message in _policy(policy):
            yield (*path, *inner), message
    seen: set[str] = set()
    for index, subset in enumerate(spec.subsets):
        path = ("subsets", index)
        if not is_dns_label(subset.name):
            yield (
                (*path, "name"),
                f'"{subset.name}" is not a name of small letters, digits and hyphens such as v1',
            )
        elif subset.name in seen:
            yield (*path, "name"), f'the subset "{subset.name}" is given twice'
        seen.add(subset.name)
        yield from label_mistakes(subset.labels, (*path, "labels"))


def warnings(spec: DestinationRuleSpec, _metadata: Metadata) -> Iterator[Finding]:
    """Yield what is accepted in a rule and hardly meant so."""
    yield from _warn_of_selector(spec)
    for path, policy in _policies(spec):
        ports: set[int | None] = set()
        for index, by_port in enumerate(policy.port_level_settings):
            place = (*path, "portLevelSettings", index)
            number = by_port.port.number if by_port.port is not None else None
            if number in ports:
                yield place, f"the port {number} is given twice; the first one counts"
            ports.add(number)
            for inner, message in _section_warnings(by_port, by_selector=_selects(spec)):
                yield (*place, *inner), message
        for inner, message in _section_warnings(policy, by_selector=_selects(spec)):
            yield (*path, *inner), message
        if policy.retry_budget is not None and policy.retry_budget.budget_interval is not None:
            yield (
                (*path, "retryBudget", "budgetInterval"),
                "has no effect: Envoy counts the requests that are active",
            )


def _selects(spec: DestinationRuleSpec) -> bool:
    return spec.workload_selector is not None and bool(spec.workload_selector.match_labels)


def _is_private(spec: DestinationRuleSpec, metadata: Metadata) -> bool:
    return all(each in (".", metadata.namespace) for each in spec.export_to)


def _policies(spec: DestinationRuleSpec) -> Iterator[tuple[FieldPath, TrafficPolicy]]:
    if spec.traffic_policy is not None:
        yield ("trafficPolicy",), spec.traffic_policy
    for index, subset in enumerate(spec.subsets):
        if subset.traffic_policy is not None:
            yield ("subsets", index, "trafficPolicy"), subset.traffic_policy


def _policy(policy: TrafficPolicy) -> Iterator[Finding]:
    if policy == TrafficPolicy():
        yield (), "is empty; give at least one setting, or remove it"
    yield from _sections(policy)
    for index, each in enumerate(policy.port_level_settings):
        path = ("portLevelSettings", index)
        if each.port is None or each.port.number is None:
            yield path, "the port is missing; write port: {number: 80}"
        if each == PortTrafficPolicy(port=each.port):
            yield path, "has nothing but a port; give at least one setting, or remove it"
        for inner, message in _sections(each):
            yield (*path, *inner), message
    if policy.tunnel is not None:
        if policy.proxy_protocol is not None:
            yield ("proxyProtocol",), "can't stand beside tunnel: keep one of the two"
        for inner, message in _tunnel(policy.tunnel):
            yield ("tunnel", *inner), message
    budget = policy.retry_budget
    if budget is not None:
        if budget.percent is not None and (wrong := percent_mistake(budget.percent)) is not None:
            yield ("retryBudget", "percent"), wrong
        yield from duration_mistakes(("retryBudget", "budgetInterval"), budget.budget_interval)


def _sections(policy: TrafficPolicy | PortTrafficPolicy) -> Iterator[Finding]:
    found: list[tuple[str, Iterator[Finding]]] = []
    if policy.load_balancer is not None:
        found.append(("loadBalancer", load_balancer_mistakes(policy.load_balancer)))
    if policy.connection_pool is not None:
        found.append(("connectionPool", pool_mistakes(policy.connection_pool)))
    if policy.outlier_detection is not None:
        found.append(("outlierDetection", outlier_mistakes(policy.outlier_detection)))
    if policy.tls is not None:
        found.append(("tls", _tls(policy.tls)))
    for name, findings in found:
        for path, message in findings:
            yield (name, *path), message


def _tls(tls: ClientTls) -> Iterator[Finding]:
    files = {
        "clientCertificate": tls.client_certificate,
        "privateKey": tls.private_key,
        "caCertificates": tls.ca_certificates,
    }
    if tls.mode in (ClientTlsMode.SIMPLE, ClientTlsMode.MUTUAL) and tls.credential_name:
        for name, file in files.items():
            if file:
                yield (name,), "can't stand beside credentialName: keep one of the two"
    elif tls.mode is ClientTlsMode.MUTUAL:
        for name in ("clientCertificate", "privateKey"):
            if not files[name]:
                yield (), f"mode MUTUAL needs the field {name}"
    if tls.insecure_skip_verify:
        checked = {
            "caCertificates": tls.ca_certificates,
            "subjectAltNames": tls.subject_alt_names,
            "credentialName": tls.credential_name if tls.mode is ClientTlsMode.SIMPLE else "",
        }
        for name, given in checked.items():
            if given:
                yield (name,), "can't stand beside insecureSkipVerify, which checks nothing"
    for index, name in enumerate(tls.subject_alt_names):
        if not name:
            yield ("subjectAltNames", index), "must not be empty"


def _tunnel(tunnel: Tunnel) -> Iterator[Finding]:
    if tunnel.protocol not in ("", "CONNECT", "POST"):
        yield ("protocol",), f'expected CONNECT or POST, found "{tunnel.protocol}"'
    if not is_ip(tunnel.target_host) and not (
        is_host(tunnel.target_host) and "." in tunnel.target_host
    ):
        yield (
            ("targetHost",),
            f'"{tunnel.target_host}" is neither a full host name such as www.example.com nor an IP',
        )
    if not tunnel.target_port:
        yield (), "the field targetPort is missing"


def _section_warnings(
    policy: TrafficPolicy | PortTrafficPolicy, *, by_selector: bool
) -> Iterator[Finding]:
    balancer, tls = policy.load_balancer, policy.tls
    if balancer is not None:
        for path, message in load_balancer_warnings(balancer):
            yield ("loadBalancer", *path), message
        setting = balancer.locality_lb_setting
        if (
            setting is not None
            and (setting.failover or setting.failover_priority)
            and policy.outlier_detection is None
        ):
            yield (
                ("loadBalancer", "localityLbSetting"),
                "failover has no effect without outlierDetection beside it",
            )
    if policy.outlier_detection is not None:
        for path, message in outlier_warnings(policy.outlier_detection):
            yield ("outlierDetection", *path), message
    if tls is not None:
        for path, message in _tls_warnings(tls, by_selector=by_selector):
            yield ("tls", *path), message


def _tls_warnings(tls: ClientTls, *, by_selector: bool) -> Iterator[Finding]:
    files: dict[str, object] = {
        "clientCertificate": tls.client_certificate,
        "privateKey": tls.private_key,
    }
    all_credentials = files | {
        "caCertificates": tls.ca_certificates,
        "credentialName": tls.credential_name,
    }
    if tls.mode is ClientTlsMode.ISTIO_MUTUAL:
        yield from _unused(all_credentials, "with ISTIO_MUTUAL, which has the mesh's certificates")
    elif tls.mode is ClientTlsMode.DISABLE:
        names: dict[str, object] = {"sni": tls.sni, "subjectAltNames": tls.subject_alt_names}
        yield from _unused(all_credentials | names, "with DISABLE, which is plaintext")
    elif tls.mode is ClientTlsMode.SIMPLE:
        yield from _unused(files, "with SIMPLE, which shows no certificate of the client's")
    if tls.credential_name and not by_selector and tls.mode in _BY_CREDENTIAL:
        yield (
            ("credentialName",),
            (
                "is for gateways: sidecars can't reach the service, unless the rule has a "
                "workloadSelector or files take its place"
            ),
        )


def _unused(fields: dict[str, object], reason: str) -> Iterator[Finding]:
    for name, given in fields.items():
        if given:
            yield (name,), f"has no effect {reason}"


_BY_CREDENTIAL = (ClientTlsMode.SIMPLE, ClientTlsMode.MUTUAL)


def _warn_of_selector(spec: DestinationRuleSpec) -> Iterator[Finding]:
    if spec.workload_selector is not None and not _selects(spec):
        yield ("workloadSelector",), "has no labels: it is for all workloads of the namespace"
