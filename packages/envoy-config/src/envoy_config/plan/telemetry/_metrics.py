"""Which of Istio's metrics a proxy makes, by Telemetry objects or else by mesh config.

The merging of overrides is Istio's: all that objects say about a provider adds up, from the mesh
to the workload; the last that says something of a metric or a tag decides.
"""

from collections.abc import Iterator, Sequence

from envoy_config.plan.resolved._telemetry import Metric
from envoy_config.plan.telemetry._providers import makes_metrics
from istio_config.kinds.formats import metric_tag_format
from istio_config.kinds.mesh_config import MeshConfigSpec
from istio_config.kinds.mesh_config.providers import PROMETHEUS
from istio_config.kinds.telemetry import (
    PROXY_METRICS,
    TAG_NAME,
    IstioMetric,
    MetricsOverride,
    TagOperation,
    TelemetrySpec,
    WorkloadMode,
    selected_metrics,
)


def metrics_of(
    levels: Sequence[TelemetrySpec], mode: WorkloadMode, mesh: MeshConfigSpec
) -> tuple[Metric, ...]:
    """Return the metrics of one side of a proxy, with the tags that are not as usual."""
    defaults = default_providers(mesh)
    entries = [each for level in levels for each in level.metrics]
    in_use, current = bool(_of_metrics(defaults, mesh)) and not entries, defaults
    all_off = False
    disabled: dict[IstioMetric, bool] = {}
    tags: dict[IstioMetric, dict[str, str]] = {}
    for entry in entries:
        current = tuple(each.name for each in entry.providers) or current
        if not _of_metrics(current, mesh):
            continue
        in_use = True
        for override in entry.overrides:
            if override.match is not None and override.match.mode not in (
                WorkloadMode.CLIENT_AND_SERVER,
                mode,
            ):
                continue
            metrics = selected_metrics(override.match)
            if override.disabled is not None and metrics == PROXY_METRICS:
                all_off = override.disabled
                if all_off:
                    continue
            for metric in metrics:
                if override.disabled is not None:
                    disabled[metric] = override.disabled
                tags.setdefault(metric, {}).update(_changed_tags(override))
    if not in_use or all_off:
        return ()
    return tuple(
        Metric(each, tuple(sorted(tags.get(each, {}).items())))
        for each in PROXY_METRICS
        if not disabled.get(each, False)
    )


def default_providers(mesh: MeshConfigSpec) -> tuple[str, ...]:
    """Return the providers of proxies for which no Telemetry names one."""
    given = mesh.default_providers.metrics
    return (PROMETHEUS,) if given is None else given


def _of_metrics(names: Sequence[str], mesh: MeshConfigSpec) -> list[str]:
    return [each for each in names if makes_metrics(each, mesh)]


def _changed_tags(override: MetricsOverride) -> Iterator[tuple[str, str]]:
    """Yield tags with their formats; an empty one for those that go.

    What can't be said to Envoy is left as it is, and reported where Telemetry objects are checked.
    """
    for name, tag in override.tag_overrides.items():
        if tag.operation is TagOperation.REMOVE:
            yield name, ""
        elif TAG_NAME.fullmatch(name) and (found := metric_tag_format(tag.value)) is not None:
            yield name, found
