"""How the requests of a proxy are traced, by Telemetry objects or else by mesh config."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from envoy_config.plan._provider_services import provider_service
from envoy_config.plan._proxy import Proxy
from envoy_config.plan.resolved._telemetry import Tag, TracedBy, Tracing
from envoy_config.plan.telemetry._levels import is_about
from envoy_config.plan.telemetry._providers import providers_of
from envoy_config.plan.telemetry._workload_tags import workload_tags
from istio_config.kinds.mesh_config import MeshConfigSpec, ProxyConfig, ProxyTracing
from istio_config.kinds.mesh_config.providers import Datadog, OpenTelemetry
from istio_config.kinds.telemetry import CustomTag, TelemetrySpec, WorkloadMode
from istio_config.kinds.telemetry import Tracing as TracingSpec
from mesh_model import MeshModel, Service

_T = TypeVar("_T")
_USUAL_PERCENTAGE = 1.0
_NO_TRACING = ProxyTracing()


class TracedProxy(NamedTuple):
    """All of a proxy that its traces depend on."""

    config: ProxyTracing | None
    """The tracer of its bootstrap; None if it has none."""
    proxy: Proxy
    known: Mapping[str, Service]
    """The services that it knows, by host."""


def bootstrap_tracing(own: ProxyConfig, mesh: MeshConfigSpec) -> ProxyTracing | None:
    """Return the settings of a proxy's own tracer; None if its bootstrap has none."""
    for config in (own, mesh.default_config):
        if config.tracing is not None:
            return config.tracing
        if config.zipkin_address:
            return _NO_TRACING
    return None


def tracing_of(
    levels: Sequence[TelemetrySpec], mode: WorkloadMode, proxy: TracedProxy, model: MeshModel
) -> Tracing | None:
    """Return how one side of a proxy traces; None: not at all.

    A provider that is not there, or no tracer, or whose service the proxy has no cluster of, traces
    nothing: Envoy refuses the whole listener for some tracers without their clusters.
    """
    mesh = model.mesh_config
    entries = [each for level in levels for each in level.tracing if is_about(each.match, mode)]
    disabled = _last(entries, lambda each: each.disable_span_reporting)
    if disabled:
        return None
    named = next((each.providers[0].name for each in reversed(entries) if each.providers), None)
    name = named or next(iter(mesh.default_providers.tracing), None)
    provider = None
    if name is not None:
        provider = _provider(name, proxy, model)
        if provider is None:
            return None
    elif not mesh.enable_tracing or proxy.config is None:
        return None
    own = proxy.config or _NO_TRACING
    return _settings(entries, own, provider, proxy.proxy)


def _settings(
    entries: Sequence[TracingSpec],
    own: ProxyTracing,
    provider: TracedBy | None,
    proxy: Proxy,
) -> Tracing:
    sampling = _last(entries, lambda each: each.random_sampling_percentage)
    if sampling is None:
        sampling = own.sampling if own.sampling is not None else _USUAL_PERCENTAGE
    istio_tags = _last(entries, lambda each: each.enable_istio_tags)
    if istio_tags is None:
        istio_tags = own.enable_istio_tags is not False
    by_request_id = _last(entries, lambda each: each.use_request_id_for_trace_sampling)
    tags = next((_tags(each.custom_tags) for each in reversed(entries) if each.custom_tags), None)
    if tags is not None and not proxy.takes_tag_values:
        tags = tuple(each for each in tags if each.kind != "formatter")
    length = getattr(provider.tracer, "max_tag_length", 0) if provider is not None else 0
    return Tracing(
        provider=provider,
        sampling=sampling,
        tags=tags if tags is not None else _own_tags(own),
        istio_tags=workload_tags(proxy) if istio_tags else (),
        max_path_length=length or own.max_path_tag_length,
        samples_by_request_id=by_request_id is not False,
        # The other tracers take the name from node.cluster of the bootstrap. Left out for them, so
        # that proxies of several workloads share one listener here.
        service_name=proxy.service_cluster
        if provider is not None and isinstance(provider.tracer, Datadog | OpenTelemetry)
        else "",
    )


def _last(entries: Sequence[TracingSpec], field: Callable[[TracingSpec], _T | None]) -> _T | None:
    """Return the value of the last entry that says one."""
    return next((found for each in reversed(entries) if (found := field(each)) is not None), None)


def _provider(name: str, proxy: TracedProxy, model: MeshModel) -> TracedBy | None:
    found = providers_of(model.mesh_config).get(name.lower())
    tracer = found.tracer if found is not None else None
    if tracer is None:
        return None
    service = provider_service(tracer.service, tracer.port, model)
    if service is None:
        return None
    known = proxy.known.get(service.authority)
    has_cluster = known is not None and known.port(tracer.port) is not None
    return TracedBy(tracer, service) if has_cluster else None


def _tags(given: Mapping[str, CustomTag]) -> tuple[Tag, ...]:
    found = []
    for name, tag in sorted(given.items()):
        if tag.literal is not None:
            found.append(Tag(name, "literal", tag.literal.value))
        elif tag.environment is not None:
            variable = tag.environment
            found.append(Tag(name, "environment", variable.name, variable.default_value))
        elif tag.header is not None:
            found.append(Tag(name, "header", tag.header.name, tag.header.default_value))
        elif tag.formatter is not None:
            found.append(Tag(name, "formatter", tag.formatter.value))
    return tuple(found)


def _own_tags(own: ProxyTracing) -> tuple[Tag, ...]:
    found = []
    for name, tag in sorted(own.custom_tags.items()):
        if tag.literal is not None and tag.literal.value:
            found.append(Tag(name, "literal", tag.literal.value))
        elif tag.environment is not None and tag.environment.name:
            variable = tag.environment
            found.append(Tag(name, "environment", variable.name, variable.default_value))
        elif tag.header is not None and tag.header.name:
            found.append(Tag(name, "header", tag.header.name, tag.header.default_value))
    return tuple(found)
