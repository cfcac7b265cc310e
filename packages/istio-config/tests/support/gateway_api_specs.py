"""Reads specs of the Gateway API's kinds, and makes parts of them."""

import yaml

from istio_config.kinds.gateway_api import GATEWAY_API_KINDS
from istio_config.kinds.metadata import Metadata
from mesh_configfile import field_name

KIND = {kind.name: kind for kind in GATEWAY_API_KINDS}


def read(kind: str, spec: str) -> tuple[list[str], list[str]]:
    """Return the mistakes and the warnings, each with the name of its field."""
    metadata = Metadata(name="it", namespace="shop")
    body = KIND[kind].read(yaml.safe_load(spec), (), metadata)
    found, mistakes, warnings = body.spec, body.mistakes, body.warnings
    lacking = KIND[kind].lacks(found, metadata) if found is not None else ()
    return (
        [f"{field_name(path)}: {text}" for path, text in (*mistakes, *lacking)],
        [f"{field_name(path)}: {text}" for path, text, _ in warnings],
    )


def listener(text: str) -> str:
    return f"{{gatewayClassName: istio, listeners: [{text}]}}"


def rule(text: str) -> str:
    return f"{{parentRefs: [{{name: gw}}], rules: [{text}]}}"


def path(text: str) -> str:
    return rule(f"{{matches: [{{path: {text}}}]}}")


def filters(*each: str) -> str:
    return rule(f"{{filters: [{', '.join(each)}]}}")
