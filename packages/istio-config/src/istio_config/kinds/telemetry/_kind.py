"""Telemetry: the logs, traces and metrics of the proxies of some workloads.

Source: Istio's API, telemetry/v1, and its validation.
"""

from collections.abc import Iterator

import msgspec

from istio_config.kinds.checks import is_header_name, percent_mistake
from istio_config.kinds.fields import SpecFields, Text
from istio_config.kinds.formats import (
    ATTRIBUTES,
    OF_TAGS,
    expression_mistake,
    format_mistake,
    unknown_names,
)
from istio_config.kinds.kind import Kind
from istio_config.kinds.metadata import Metadata
from istio_config.kinds.selection import (
    Selection,
    TargetRef,
    WorkloadSelector,
    selection_mistakes,
    selection_of,
    selection_warnings,
)
from istio_config.kinds.telemetry._metrics import Metrics, metrics_mistakes, metrics_warnings
from istio_config.kinds.telemetry._sides import ModeMatch, ProviderRef, provider_ref_mistakes
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding


class Literal(SpecFields, frozen=True):
    """A tag with a value of its own."""

    value: str = ""


class Environment(SpecFields, frozen=True):
    """A tag with the value of a variable of the proxy's environment."""

    name: str = ""
    default_value: str = ""


class RequestHeader(SpecFields, frozen=True):
    """A tag with the value of a header of the request."""

    name: str = ""
    default_value: str = ""


class Formatter(SpecFields, frozen=True):
    """A tag with a value in the format of access logs, such as `%REQ(x-id)%`."""

    value: str = ""


class CustomTag(SpecFields, frozen=True):
    """A further tag of spans: one of its fields is given."""

    literal: Literal | None = None
    environment: Environment | None = None
    header: RequestHeader | None = None
    formatter: Formatter | None = None


class Tracing(SpecFields, frozen=True):
    """Which requests are traced, and where the spans go."""

    match: ModeMatch | None = None
    providers: tuple[ProviderRef, ...] = ()
    random_sampling_percentage: float | None = None
    disable_span_reporting: bool | None = None
    custom_tags: dict[str, CustomTag] = msgspec.field(default_factory=dict)
    use_request_id_for_trace_sampling: bool | None = None
    enable_istio_tags: bool | None = None
    disable_context_propagation: bool | None = None


class LogFilter(SpecFields, frozen=True):
    """The requests that are logged."""

    expression: Text
    """In CEL (`formats`)."""


class AccessLogging(SpecFields, frozen=True):
    """Which requests are logged, and where."""

    match: ModeMatch | None = None
    providers: tuple[ProviderRef, ...] = ()
    disabled: bool | None = None
    filter: LogFilter | None = None


class TelemetrySpec(SpecFields, frozen=True):
    """Logs, traces and metrics of the proxies of some workloads."""

    selector: WorkloadSelector | None = None
    target_ref: TargetRef | None = None
    """The older way to give one of `target_refs`."""
    target_refs: tuple[TargetRef, ...] = ()
    tracing: tuple[Tracing, ...] = ()
    metrics: tuple[Metrics, ...] = ()
    access_logging: tuple[AccessLogging, ...] = ()

    @property
    def selection(self) -> Selection:
        """The workloads that it is for."""
        refs = self.target_refs if self.target_ref is None else (self.target_ref,)
        return selection_of(self.selector, refs)


def _mistakes(spec: TelemetrySpec, metadata: Metadata) -> Iterator[Finding]:
    """Yield what is wrong with a Telemetry; paths start below its spec."""
    labels = spec.selector.match_labels if spec.selector is not None else None
    yield from selection_mistakes(
        labels, spec.target_refs, metadata.namespace, single=spec.target_ref
    )
    for index, tracing in enumerate(spec.tracing):
        yield from _tracing_mistakes(tracing, ("tracing", index))
    for index, metrics in enumerate(spec.metrics):
        yield from metrics_mistakes(metrics, ("metrics", index))
    for index, logging in enumerate(spec.access_logging):
        path: FieldPath = ("accessLogging", index)
        yield from provider_ref_mistakes(logging.providers, path)
        wrong = expression_mistake(logging.filter.expression) if logging.filter else None
        if wrong is not None:
            yield (*path, "filter", "expression"), f"Envoy would refuse it: it {wrong}"


def _warnings(spec: TelemetrySpec, _metadata: Metadata) -> Iterator[Finding]:
    """Yield what is accepted and has no effect, or probably another one than is meant."""
    yield from selection_warnings(spec.target_refs, spec.target_ref)
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
        if tracing.disable_context_propagation:
            yield (
                ("tracing", index, "disableContextPropagation"),
                "is not supported: the headers of a trace are sent on",
            )
    for index, metrics in enumerate(spec.metrics):
        yield from metrics_warnings(metrics, ("metrics", index))
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


def _tracing_mistakes(tracing: Tracing, path: FieldPath) -> Iterator[Finding]:
    yield from provider_ref_mistakes(tracing.providers, path)
    share = tracing.random_sampling_percentage
    if share is not None and (wrong := percent_mistake(share)) is not None:
        yield (*path, "randomSamplingPercentage"), wrong
    for name, tag in tracing.custom_tags.items():
        here = (*path, "customTags", name)
        if not name:
            yield here, "the name of a tag is empty"
        for inner, message in _tag_mistakes(tag):
            yield (*here, *inner), message


def _tag_mistakes(tag: CustomTag) -> Iterator[Finding]:
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


TELEMETRY = Kind(
    name="Telemetry",
    group="telemetry.istio.io",
    versions=("v1", "v1alpha1"),
    spec=TelemetrySpec,
    validate=_mistakes,
    warn=_warnings,
)
