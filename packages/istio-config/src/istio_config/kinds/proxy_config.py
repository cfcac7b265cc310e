"""ProxyConfig: how the proxies of some workloads are started.

Not the ProxyConfig of mesh config (`mesh_config`), which has the same name and more fields. Which
of several objects is for a workload is in `mesh_model`.
Source: Istio's API, networking/v1beta1, and the bounds in the definition of the resource.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated

import msgspec

from istio_config.kinds.checks import selector_mistakes
from istio_config.kinds.fields import Labels, SpecFields
from istio_config.kinds.kind import Kind
from istio_config.kinds.metadata import Metadata
from istio_config.kinds.selection import Selection, WorkloadSelector, selection_of
from mesh_configfile.shapes import Finding

_LONGEST_VALUE = 2048
"""Of a variable, in characters: the server of Kubernetes takes no longer one."""


class ProxyImage(SpecFields, frozen=True):
    """The image of a proxy in a Pod."""

    image_type: str = ""


class ProxyConfigSpec(SpecFields, frozen=True):
    """How the proxies of a mesh, a namespace or some workloads are started."""

    selector: WorkloadSelector | None = None
    concurrency: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] | None = None
    """How many worker threads an Envoy has; 0: one for each core."""
    environment_variables: Labels = msgspec.field(default_factory=dict)
    image: ProxyImage | None = None

    @property
    def selection(self) -> Selection:
        """The workloads that it is for; all of them also where it is for none (`is_for_none`)."""
        return selection_of(self.selector, ())

    @property
    def is_for_none(self) -> bool:
        """Whether it is for no workload: a selector without labels selects none, as in Istio."""
        return self.selector is not None and not self.selector.match_labels

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables that a process can have."""
        return {
            name: value
            for name, value in self.environment_variables.items()
            if _why_no_variable(name, value) is None
        }


def _mistakes(spec: ProxyConfigSpec, _metadata: Metadata) -> Iterator[Finding]:
    if spec.selector is not None:
        yield from selector_mistakes(spec.selector.match_labels, ("selector", "matchLabels"))
    for name, value in spec.environment_variables.items():
        if len(value) > _LONGEST_VALUE:
            yield (
                ("environmentVariables", name),
                f"has {len(value)} characters; Kubernetes takes {_LONGEST_VALUE} at most",
            )


def _warnings(spec: ProxyConfigSpec, _metadata: Metadata) -> Iterator[Finding]:
    if spec.is_for_none:
        yield (
            ("selector",),
            (
                "has no labels: it is for no workload; leave the selector out for all workloads "
                "of the namespace"
            ),
        )
    for name, value in spec.environment_variables.items():
        if (why := _why_no_variable(name, value)) is not None:
            yield ("environmentVariables", name), f"has no effect: {why}"
    if spec.image is not None and spec.image.image_type:
        yield (
            ("image", "imageType"),
            (
                "has no effect: it is the image of a proxy that is injected into a Pod, and no "
                "proxy is injected here"
            ),
        )


def _why_no_variable(name: str, value: str) -> str | None:
    """Return why a process can't have a variable; None if it can (POSIX, `environ`)."""
    if not name:
        return "a variable needs a name"
    if "=" in name or "\0" in name:
        return "the name of a variable has no = and no NUL"
    return "the value of a variable has no NUL" if "\0" in value else None


PROXY_CONFIG = Kind(
    name="ProxyConfig",
    group="networking.istio.io",
    versions=("v1beta1",),
    spec=ProxyConfigSpec,
    validate=_mistakes,
    warn=_warnings,
)
