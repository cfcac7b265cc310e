"""Finds Telemetry objects, or parts of them, without effect; problems say where in the files.

Each object is valid by itself. A provider may not be there, or not be of the sort that is needed;
an older object may be for all workloads of the same namespace.
"""

from collections.abc import Iterator

from envoy_config.plans import (
    BUILT_IN_LOG,
    first_for_all,
    is_for_all,
    makes_metrics,
    provider_service,
    providers_of,
)
from istio_config.kinds.mesh_config import MeshConfigSpec
from istio_config.kinds.mesh_config.providers import ExtensionProvider
from istio_config.kinds.telemetry import TELEMETRY, TelemetrySpec
from mesh_configfile import FieldPath, Problem
from mesh_model import MeshModel, WorkloadRule

_Rule = WorkloadRule[TelemetrySpec]


def unused_telemetry(model: MeshModel) -> Iterator[Problem]:
    """Yield a problem for each part of a Telemetry without effect."""
    rules = model.workload_rules.of_kind(TELEMETRY)
    for rule in rules:
        item = model.workload_rules.object_of(rule)
        (oldest,) = first_for_all(rules, rule.namespace) or (rule,)
        if is_for_all(rule) and rule is not oldest:
            yield item.problem(
                ("spec",),
                f"the Telemetry {oldest.name} is for all workloads of the namespace, too, and is "
                "older: this one has no effect",
                "IST0160",
            )
            continue
        for path, why in (*_unusable(rule, model), *_of_no_provider(rule, rules, model)):
            yield item.problem(("spec", *path), why)


def _unusable(rule: _Rule, model: MeshModel) -> Iterator[tuple[FieldPath, str]]:
    """Yield the providers that nothing can be sent to."""
    for index, logging in enumerate(rule.spec.access_logging):
        for place, each in enumerate(logging.providers):
            why = _why_no_log(each.name, rule.namespace, model)
            if why is not None:
                path: FieldPath = ("accessLogging", index, "providers", place, "name")
                yield path, f"{why}: nothing is logged there"
    for index, tracing in enumerate(rule.spec.tracing):
        for each in tracing.providers[:1]:
            why = _why_no_trace(each.name, rule.namespace, model)
            if why is not None:
                yield ("tracing", index, "providers", 0, "name"), f"{why}: nothing is traced"
    for index, metrics in enumerate(rule.spec.metrics):
        for place, each in enumerate(metrics.providers):
            why = _why_no_metrics(each.name, model)
            if why is not None:
                yield ("metrics", index, "providers", place, "name"), f"{why}: nothing is counted"


def _why_no_log(name: str, namespace: str, model: MeshModel) -> str | None:
    provider = providers_of(model.mesh_config).get(name.lower())
    if provider is None:
        if name.lower() == BUILT_IN_LOG:
            return None
        return _unknown(name, model.mesh_config)
    if provider.logger is None:
        return f"the extension provider {name} takes no access logs"
    return _why_no_service(provider, namespace, model)


def _why_no_trace(name: str, namespace: str, model: MeshModel) -> str | None:
    provider = providers_of(model.mesh_config).get(name.lower())
    if provider is None:
        return _unknown(name, model.mesh_config)
    if provider.tracer is None:
        return f"the extension provider {name} takes no traces"
    return _why_no_service(provider, namespace, model)


def _why_no_metrics(name: str, model: MeshModel) -> str | None:
    if makes_metrics(name, model.mesh_config):
        return None
    if name.lower() in providers_of(model.mesh_config):
        return f"the extension provider {name} takes no metrics that proxies make"
    return _unknown(name, model.mesh_config)


def _unknown(name: str, mesh: MeshConfigSpec) -> str:
    known = sorted(each.name for each in mesh.extension_providers)
    listed = f"; there are {', '.join(known)}" if known else ""
    return f"the mesh config has no extension provider {name}{listed}"


def _why_no_service(provider: ExtensionProvider, namespace: str, model: MeshModel) -> str | None:
    if provider.service is None:
        return None
    name, port = provider.service
    found = provider_service(name, port, model)
    if found is None:
        return (
            f"the extension provider {provider.name} is at {name}, port {port}, and there is no "
            "such service, or several namespaces have it"
        )
    service = model.by_key[found.key]
    if namespace != model.mesh_config.root_namespace and not service.visible_in(namespace):
        return (
            f"the extension provider {provider.name} is the service {service.host}, which is not "
            f"exported to namespace {namespace}"
        )
    known = service.port(port)
    if _is_grpc(provider) and known is not None and not known.protocol.is_http2:
        return (
            f"the extension provider {provider.name} is sent to by gRPC, and its port {port} "
            f"declares the protocol {known.protocol}, not GRPC"
        )
    return None


def _is_grpc(provider: ExtensionProvider) -> bool:
    if provider.logger is not None or provider.skywalking is not None:
        return True
    return provider.opentelemetry is not None and provider.opentelemetry.http is None


def _of_no_provider(
    rule: _Rule, rules: tuple[_Rule, ...], model: MeshModel
) -> Iterator[tuple[FieldPath, str]]:
    """Yield access logging that is about no provider, as nothing around it names one."""
    if not rule.spec.access_logging or model.mesh_config.default_providers.access_logging:
        return
    root = model.mesh_config.root_namespace
    around = (rule, *first_for_all(rules, root), *first_for_all(rules, rule.namespace))
    if any(entry.providers for each in around for entry in each.spec.access_logging):
        return
    if all(entry.disabled for entry in rule.spec.access_logging):
        return
    yield (
        ("accessLogging",),
        (
            "names no provider, as do the objects for the namespace and the mesh, and the mesh "
            f"config has no defaultProviders: nothing is logged; name one, such as {BUILT_IN_LOG}"
        ),
    )
