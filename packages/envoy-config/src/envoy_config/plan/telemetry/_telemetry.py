"""The settings of a proxy with what it logs, traces and counts, by Telemetry or mesh config.

And with the extensions that it runs.
"""

from collections.abc import Callable, Mapping

from envoy_config.plan._proxy import Proxy
from envoy_config.plan._proxy_settings import ProxySettings
from envoy_config.plan._workload import workload_of
from envoy_config.plan.extensions._extensions import extensions_of
from envoy_config.plan.resolved._telemetry import SideTelemetry, Telemetry
from envoy_config.plan.telemetry._access_logs import logs_of, mesh_logs
from envoy_config.plan.telemetry._levels import levels
from envoy_config.plan.telemetry._metrics import default_providers, metrics_of
from envoy_config.plan.telemetry._tracing import TracedProxy, bootstrap_tracing, tracing_of
from istio_config.kinds.mesh_config import MeshConfigSpec
from istio_config.kinds.telemetry import TelemetrySpec, WorkloadMode
from mesh_model import MeshModel, Service


def settings_of(
    proxy: Proxy, model: MeshModel, known: Callable[[], Mapping[str, Service]]
) -> ProxySettings:
    """Return the settings of a proxy: its own, what they leave out as the mesh has it.

    known: returns the services that the proxy knows, by host; it is called if traces need one.
    """
    settings = proxy.settings.over(model.mesh_config.default_config)
    if model.workload_rules and (extensions := extensions_of(proxy, model)):
        settings = settings._replace(extensions=extensions)
    telemetry = telemetry_of(proxy, model, known)
    return settings if telemetry is None else settings._replace(telemetry=telemetry)


def telemetry_of(
    proxy: Proxy, model: MeshModel, known: Callable[[], Mapping[str, Service]]
) -> Telemetry | None:
    """Return the logs, traces and metrics of a proxy; None: the logs of mesh config alone."""
    mesh = model.mesh_config
    found: tuple[TelemetrySpec, ...] = ()
    if model.workload_rules:
        workload = workload_of(proxy, model)
        found = levels(model.workload_rules, workload, root_namespace=mesh.root_namespace)
    own = bootstrap_tracing(proxy.settings.config, mesh)
    defaults = mesh.default_providers
    traces = bool(defaults.tracing) or (own is not None and mesh.enable_tracing)
    counts = proxy.can_make_metrics and bool(default_providers(mesh))
    if not found and not defaults.access_logging and not traces and not counts:
        return None
    needs_known = bool(defaults.tracing) or any(each.tracing for each in found)
    traced = TracedProxy(own, proxy, known() if needs_known else {})

    def side(mode: WorkloadMode) -> SideTelemetry:
        logs = logs_of(found, mode, proxy.namespace, model)
        return logs._replace(
            tracing=tracing_of(found, mode, traced, model),
            metrics=metrics_of(found, mode, mesh) if proxy.can_make_metrics else (),
            bounds_metrics=proxy.can_bound_metrics,
        )

    return Telemetry(client=side(WorkloadMode.CLIENT), server=side(WorkloadMode.SERVER))


def side_of(settings: ProxySettings, mesh: MeshConfigSpec, *, inbound: bool) -> SideTelemetry:
    """Return the telemetry of one side of a proxy; inbound: of what its workload is called.

    Gateways have those of calls, for all that connect to them.
    """
    if settings.telemetry is None:
        return mesh_logs(mesh)
    return settings.telemetry.server if inbound else settings.telemetry.client
