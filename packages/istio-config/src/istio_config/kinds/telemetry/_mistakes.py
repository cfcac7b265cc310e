"""Mistakes and warnings of a Telemetry."""

from collections.abc import Iterator, Sequence

from istio_config.kinds.checks import duration_mistake, is_header_name, percent_mistake
from istio_config.kinds.formats import (
    ATTRIBUTES,
    OF_TAGS,
    expression_mistake,
    format_mistake,
    unknown_names,
)
from istio_config.kinds.metadata import Metadata
from istio_config.kinds.selection import selection_mistakes
from istio_config.kinds.telemetry._spec import (
    CustomTag,
    Metrics,
    MetricsOverride,
    ProviderRef,
    TagOperation,
    TelemetrySpec,
    Tracing,
)
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding


def mistakes(spec: TelemetrySpec, metadata: Metadata) -> Iterator[Finding]:
    """Yield what is wrong with a Telemetry; paths start below its spec."""
    labels = spec.selector.match_labels if spec.selector is not None else None
    yield from selection_mistakes(
        labels, spec.target_refs, metadata.namespace, single=spec.target_ref
    )
    for index, tracing in enumerate(spec.tracing):
        yield from _tracing(tracing, ("tracing", index))
    for index, metrics in enumerate(spec.metrics):
        yield from _metrics(metrics, ("metrics", index))
    for index, logging in enumerate(spec.access_logging):
        path: FieldPath = ("accessLogging", index)
        yield from _providers(logging.providers, path)
        wrong = expression_mistake(logging.filter.expression) if logging.filter else None
        if wrong is not None:
            yield (*path, "filter", "expression"), f"Envoy would refuse it: it {wrong}"


def warnings(spec: TelemetrySpec, _metadata: Metadata) -> Iterator[Finding]:
    """Yield what is accepted and has no effect, or hardly the one that is meant."""
    if spec.selector is not None and not spec.selector.match_labels:
        yield ("selector",), "has no labels: it is for all workloads of the namespace"
    if len(spec.tracing) > 1:
        yield ("tracing",), "has several entries: the last that sets something decides on it"
    for index, tracing in enumerate(spec.tracing):
        if len(tracing.providers) > 1:
            yield (
                ("tracing", index, "providers"),
                "names several providers: spans go to the first alone",
            )
    for index, metrics in enumerate(spec.metrics):
        if not _only_disables(metrics):
            yield (
                ("metrics", index),
                "has no effect: Envoy has statistics of its own, without Istio's metrics and tags",
            )
    for index, logging in enumerate(spec.access_logging):
        if logging.filter is None:
            continue
        for name in unknown_names(logging.filter.expression):
            yield (
                ("accessLogging", index, "filter", "expression"),
                (
                    f'"{name}" is none of Envoy\'s attributes, so that nothing may be logged; '
                    f"known: {', '.join(sorted(ATTRIBUTES))}"
                ),
            )


def _only_disables(metrics: Metrics) -> bool:
    """Return whether it asks for nothing but what is so anyway: that metrics are not made."""
    return bool(metrics.overrides) and all(
        each.disabled and not each.tag_overrides for each in metrics.overrides
    )


def _providers(providers: Sequence[ProviderRef], path: FieldPath) -> Iterator[Finding]:
    for index, each in enumerate(providers):
        if not each.name:
            yield (*path, "providers", index, "name"), "is empty: name one of extensionProviders"


def _tracing(tracing: Tracing, path: FieldPath) -> Iterator[Finding]:
    yield from _providers(tracing.providers, path)
    share = tracing.random_sampling_percentage
    if share is not None and (wrong := percent_mistake(share)) is not None:
        yield (*path, "randomSamplingPercentage"), wrong
    for name, tag in tracing.custom_tags.items():
        here = (*path, "customTags", name)
        if not name:
            yield here, "the name of a tag is empty"
        for inner, message in _tag(tag):
            yield (*here, *inner), message


def _tag(tag: CustomTag) -> Iterator[Finding]:
    names = tag.__struct_fields__
    given = [name for name in names if getattr(tag, name) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        yield (), f"must have one of {', '.join(names)}; found {found}"
        return
    if tag.literal is not None and not tag.literal.value:
        yield ("literal", "value"), "is empty"
    if tag.environment is not None and not tag.environment.name:
        yield ("environment", "name"), "is empty: name a variable"
    if tag.header is not None and not is_header_name(tag.header.name.removeprefix(":")):
        yield ("header", "name"), f'"{tag.header.name}" is not the name of a header'
    if tag.formatter is not None:
        if not tag.formatter.value:
            yield ("formatter", "value"), "is empty"
        elif (wrong := format_mistake(tag.formatter.value, OF_TAGS)) is not None:
            yield ("formatter", "value"), wrong


def _metrics(metrics: Metrics, path: FieldPath) -> Iterator[Finding]:
    yield from _providers(metrics.providers, path)
    interval = metrics.reporting_interval
    if interval is not None and (wrong := duration_mistake(interval)) is not None:
        yield (*path, "reportingInterval"), wrong
    for index, override in enumerate(metrics.overrides):
        for inner, message in _override(override):
            yield (*path, "overrides", index, *inner), message


def _override(override: MetricsOverride) -> Iterator[Finding]:
    match = override.match
    if match is not None and match.custom_metric is not None:
        if not match.custom_metric:
            yield ("match", "customMetric"), "is empty: name a metric"
        if match.metric is not None:
            yield ("match",), "has metric and customMetric: keep one"
    for name, tag in override.tag_overrides.items():
        path: FieldPath = ("tagOverrides", name)
        if not name:
            yield path, "the name of a tag is empty"
        if tag.operation is TagOperation.UPSERT and not tag.value:
            yield (*path, "value"), "is empty, which UPSERT can't set; use REMOVE for no tag"
        elif tag.operation is TagOperation.REMOVE and tag.value:
            yield (*path, "value"), "is given with REMOVE, which needs none"
