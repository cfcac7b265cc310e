"""GatewayClass: which controller serves the Gateways that name the class.

Source: the Gateway API, v1.
"""

import re
from collections.abc import Iterator

from istio_config.kinds.fields import SpecFields, Text
from istio_config.kinds.gateway_api._names import GROUP
from istio_config.kinds.kind import Kind
from istio_config.kinds.metadata import Metadata
from mesh_configfile.shapes import Finding

CONTROLLER = "istio.io/gateway-controller"
"""Istio's name as a controller, under which this control plane serves Gateways."""
DEFAULT_CLASS = "istio"
"""The class that Istio creates, which is known without an object."""
_CONTROLLER = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?/[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")


class ParametersReference(SpecFields, frozen=True):
    """An object with settings of a controller."""

    group: str
    kind: Text
    name: Text
    namespace: Text | None = None


class GatewayClassSpec(SpecFields, frozen=True):
    """A class of Gateways."""

    controller_name: Text
    parameters_ref: ParametersReference | None = None
    description: str | None = None


def _mistakes(spec: GatewayClassSpec, _metadata: Metadata) -> Iterator[Finding]:
    if len(spec.controller_name) > 253 or not _CONTROLLER.fullmatch(spec.controller_name):
        yield (
            ("controllerName",),
            f'"{spec.controller_name}" is not a domain and a path, as {CONTROLLER} is',
        )
    if len(spec.description or "") > 64:
        yield ("description",), "is longer than 64 characters"


def _warnings(spec: GatewayClassSpec, _metadata: Metadata) -> Iterator[Finding]:
    if spec.controller_name != CONTROLLER:
        yield (
            ("controllerName",),
            (
                f"{spec.controller_name} is another controller: Gateways of this class are let "
                f"pass, without effect; those of {CONTROLLER} are served"
            ),
        )
    elif spec.parameters_ref is not None:
        yield ("parametersRef",), "has no effect: no proxies are deployed here"


GATEWAY_CLASS = Kind(
    name="GatewayClass",
    group=GROUP,
    versions=("v1", "v1beta1"),
    spec=GatewayClassSpec,
    validate=_mistakes,
    warn=_warnings,
    is_cluster_scoped=True,
)
