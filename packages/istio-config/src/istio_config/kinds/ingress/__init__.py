"""Kubernetes' Ingress and IngressClass, which routers serve as they serve Gateways."""

from istio_config.kinds.ingress._kinds import (
    CLASS_ANNOTATION,
    INGRESS,
    INGRESS_CLASS,
    INGRESS_CONTROLLER,
    INGRESS_GROUP,
    IngressClassSpec,
    IngressRule,
    IngressSpec,
    IngressTls,
)
from istio_config.kinds.ingress._paths import EVERY_PATH, IngressPath, PathType, ServiceBackend

__all__ = [
    "CLASS_ANNOTATION",
    "EVERY_PATH",
    "INGRESS",
    "INGRESS_CLASS",
    "INGRESS_CONTROLLER",
    "INGRESS_GROUP",
    "IngressClassSpec",
    "IngressPath",
    "IngressRule",
    "IngressSpec",
    "IngressTls",
    "PathType",
    "ServiceBackend",
]
