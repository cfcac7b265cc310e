"""Which Ingresses are for this control plane: by annotation, by IngressClass, or by the mode."""

from collections.abc import Mapping
from typing import NamedTuple

from istio_config import ConfigObject
from istio_config.kinds.ingress import CLASS_ANNOTATION, INGRESS_CONTROLLER, IngressSpec
from istio_config.kinds.mesh_config import IngressControllerMode, MeshConfigSpec
from mesh_configfile import FieldPath


class IngressSettings(NamedTuple):
    """The settings of a mesh config that Ingresses depend on."""

    mode: IngressControllerMode
    class_name: str
    router: str
    """The value of the routers' label `istio`."""
    namespace: str
    """Where the Gateways are: the root namespace."""

    @classmethod
    def of_mesh(cls, config: MeshConfigSpec) -> "IngressSettings":
        """Return those of a mesh config."""
        router = config.ingress_selector
        if not router and config.ingress_service not in ("", _USUAL_SERVICE):
            router = config.ingress_service
        return cls(
            config.ingress_controller_mode,
            config.ingress_class,
            router or _USUAL_ROUTER,
            config.root_namespace,
        )


_USUAL_SERVICE = "istio-ingressgateway"
_USUAL_ROUTER = "ingressgateway"


class NotServed(NamedTuple):
    """Why an Ingress is let pass, with the field that decides."""

    path: FieldPath
    message: str


def not_served(
    item: ConfigObject, spec: IngressSpec, classes: Mapping[str, str], settings: IngressSettings
) -> NotServed | None:
    """Return why an Ingress is not served; None if it is.

    classes: the controllers of the IngressClasses, by name.
    """
    annotated = dict(item.annotations).get(CLASS_ANNOTATION)
    if annotated is not None:
        return _not_annotated(annotated, settings)
    name = spec.ingress_class_name
    controller = classes.get(name) if name is not None else None
    is_default = controller is None and settings.mode is IngressControllerMode.DEFAULT
    if is_default or controller == INGRESS_CONTROLLER:
        return None
    if controller is not None:
        message = f"the class {name} is of {controller}: the Ingress is let pass, without effect"
    else:
        lacks = "it names no class" if name is None else f"there is no IngressClass {name}"
        message = (
            f"{lacks}, so it has no effect: name an IngressClass with the controller "
            f"{INGRESS_CONTROLLER}, or write the annotation {CLASS_ANNOTATION}: "
            f"{settings.class_name}"
        )
    return NotServed(("spec", "ingressClassName"), message)


def _not_annotated(annotated: str, settings: IngressSettings) -> NotServed | None:
    path: FieldPath = ("metadata", "annotations", CLASS_ANNOTATION)
    if settings.mode is IngressControllerMode.OFF:
        return NotServed(path, "mesh config's ingressControllerMode is OFF: it has no effect")
    if annotated == settings.class_name:
        return None
    message = (
        f'the class is "{annotated}", and mesh config\'s ingressClass is '
        f'"{settings.class_name}": the Ingress has no effect'
    )
    return NotServed(path, message)
