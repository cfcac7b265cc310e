"""Documents of EnvoyFilters."""

from typing import Any

import yaml

from envoy_filters import MANAGER

FILTERS = "type.googleapis.com/envoy.extensions.filters"
ROUTER = {"filter": {"name": MANAGER, "subFilter": {"name": "envoy.filters.http.router"}}}


def envoy_filter(name: str, *patches: dict[str, Any], namespace: str = "a", **spec: Any) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "networking.istio.io/v1alpha3",
            "kind": "EnvoyFilter",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"configPatches": list(patches), **spec},
        }
    )


def patch(apply_to: str, operation: str, value: Any = None, **match: Any) -> dict[str, Any]:
    change = {"operation": operation} | ({"value": value} if value is not None else {})
    return {"applyTo": apply_to, "patch": change, "match": match}


def lua_filter(code: str, name: str = "lua") -> dict[str, Any]:
    config = {
        "@type": f"{FILTERS}.http.lua.v3.Lua",
        "default_source_code": {"inline_string": code},
    }
    return {"name": f"envoy.filters.http.{name}", "typed_config": config}


def adding(header: str, value: str) -> str:
    return f"function envoy_on_request(r) r:headers():add('{header}', '{value}') end"


def before_router(value: dict[str, Any], context: str, **match: Any) -> dict[str, Any]:
    listener = {"filterChain": ROUTER}
    return patch("HTTP_FILTER", "INSERT_BEFORE", value, context=context, listener=listener, **match)


def response_header(value: str) -> dict[str, Any]:
    return {"response_headers_to_add": [{"header": {"key": "x-patched", "value": value}}]}
