"""EnvoyFilters and their patches, from YAML."""

from textwrap import dedent
from typing import Any

import yaml

from envoy_config.plan.policies._patches import Patch, patches_in
from istio_config import ConfigObject
from istio_config.kinds.envoy_filter import ENVOY_FILTER, EnvoyFilterSpec
from istio_config.kinds.metadata import Metadata
from mesh_model import WorkloadRule
from mesh_objects import object_of

MANAGER = "envoy.filters.network.http_connection_manager"
LUA: dict[str, Any] = {
    "name": "envoy.filters.http.lua",
    "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua",
        "default_source_code": {"inline_string": "function envoy_on_request(handle) end"},
    },
}


def envoy_filter(
    patches: str | list[dict[str, Any]], name: str = "patches", *, namespace: str = "a", **spec: Any
) -> ConfigObject:
    """Make an EnvoyFilter without mistakes; patches: YAML of a list, or the list."""
    listed = yaml.safe_load(dedent(patches)) if isinstance(patches, str) else patches
    fields = {"configPatches": listed, **spec}
    body = ENVOY_FILTER.read(fields, (), Metadata(name=name))
    found, mistakes = body.spec, body.mistakes
    assert not mistakes, mistakes
    item = object_of(ENVOY_FILTER, name, fields, namespace=namespace)
    assert item.spec == found
    return item


def patches_of(patches: str | list[dict[str, Any]]) -> tuple[Patch, ...]:
    """Return the patches of an EnvoyFilter, as a proxy has them."""
    item = envoy_filter(patches)
    assert isinstance(item.spec, EnvoyFilterSpec)
    rule = WorkloadRule(
        kind=item.kind, namespace=item.namespace, name=item.name, spec=item.spec, annotations=()
    )
    return patches_in(rule)
