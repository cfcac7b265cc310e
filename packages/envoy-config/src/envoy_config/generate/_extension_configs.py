"""The programs of extensions, as the resources by which Envoys come by them (ECDS).

An agent fetches a module on the way and gives Envoy its file. How it is to fetch stands in
variables, which it does not hand on; their names are Istio's, so that Istio's agents do the same.
"""

import json
from hashlib import sha256
from typing import TYPE_CHECKING

from envoy.config.core.v3 import extension_pb2
from google.protobuf.message import Message

from envoy_config.generate._messages import any_pb2, base_pb2, packed, wrappers_pb2
from envoy_config.generate._messages import duration as duration_of
from istio_config.kinds.traffic_extension import (
    DEFAULT_SCHEME,
    FILE_SCHEME,
    FailStrategy,
    PullPolicy,
    ValueFrom,
    WasmFields,
)

if TYPE_CHECKING:
    from envoy.extensions.wasm.v3 import wasm_pb2

_RUNTIME = "envoy.wasm.runtime.v8"
_FETCH_TIMEOUT_S = 30.0
_NO_CLUSTER = "_"
"""That of the URL: no Envoy fetches by it, and the field may not be empty."""
_SECRET = "ISTIO_META_WASM_IMAGE_PULL_SECRET"  # noqa: S105 - the name of a variable
_POLICY = "ISTIO_META_WASM_IMAGE_PULL_POLICY"
_VERSION = "ISTIO_META_WASM_PLUGIN_RESOURCE_VERSION"
_OF_THE_AGENT = "ISTIO_META_"


def module_config(
    name: str, module: WasmFields, *, plugin: str, pull_secret: str | None
) -> extension_pb2.TypedExtensionConfig:
    """Make the resource of a module.

    plugin: the name that the module is known by in Envoy's log and statistics. pull_secret:
    Docker's configuration in JSON, which the agent shows the registry; empty: it is not to be had,
    and the module is not fetched; None: none is needed.
    """
    return extension_pb2.TypedExtensionConfig(
        name=name, typed_config=packed(_filter(module, plugin=plugin, pull_secret=pull_secret))
    )


def script_config(name: str, script: str) -> extension_pb2.TypedExtensionConfig:
    """Make the resource of a script in Lua."""
    # Most meshes have no scripts: they do not load these messages.
    from envoy.extensions.filters.http.lua.v3 import lua_pb2

    source = base_pb2.DataSource(inline_string=script)
    return extension_pb2.TypedExtensionConfig(
        name=name, typed_config=packed(lua_pb2.Lua(default_source_code=source))
    )


def _filter(module: WasmFields, *, plugin: str, pull_secret: str | None) -> Message:
    # Most meshes have no modules: they do not load these messages.
    from envoy.extensions.filters.http.wasm.v3 import wasm_pb2 as http_pb2
    from envoy.extensions.filters.network.wasm.v3 import wasm_pb2 as network_pb2
    from envoy.extensions.wasm.v3 import wasm_pb2

    policies = {
        FailStrategy.FAIL_CLOSE: wasm_pb2.FailurePolicy.FAIL_CLOSED,
        FailStrategy.FAIL_OPEN: wasm_pb2.FailurePolicy.FAIL_OPEN,
        FailStrategy.FAIL_RELOAD: wasm_pb2.FailurePolicy.FAIL_RELOAD,
    }
    config = wasm_pb2.PluginConfig(
        name=plugin,
        root_id=module.plugin_name,
        vm_config=_machine(module, pull_secret),
        configuration=_configuration(module),
        failure_policy=policies[module.fail_strategy],
    )
    if module.is_network:
        return network_pb2.Wasm(config=config)
    return http_pb2.Wasm(config=config)


def _configuration(module: WasmFields) -> any_pb2.Any | None:
    if not module.plugin_config:
        return None
    return packed(wrappers_pb2.StringValue(value=_json(module.plugin_config)))


def _machine(module: WasmFields, pull_secret: str | None) -> "wasm_pb2.VmConfig":
    from envoy.extensions.wasm.v3 import wasm_pb2

    given = module.vm_config.env if module.vm_config is not None else ()
    own = [each for each in given if not each.name.startswith(_OF_THE_AGENT)]
    variables = {each.name: each.value for each in own if each.value_from is ValueFrom.INLINE}
    if pull_secret is not None:
        variables[_SECRET] = pull_secret
    if module.image_pull_policy is not PullPolicy.UNSPECIFIED_POLICY:
        variables[_POLICY] = module.image_pull_policy.value
    # A policy that says Always means once for each version. Istio's is the object's in Kubernetes,
    # which files have none of, and which an edit of a label changes.
    variables[_VERSION] = _version(module)
    return wasm_pb2.VmConfig(
        runtime=_RUNTIME,
        code=_code(module),
        environment_variables=wasm_pb2.EnvironmentVariables(
            host_env_keys=[each.name for each in own if each.value_from is ValueFrom.HOST],
            key_values=variables,
        ),
    )


def _code(module: WasmFields) -> base_pb2.AsyncDataSource:
    if module.scheme == FILE_SCHEME:
        return base_pb2.AsyncDataSource(local=base_pb2.DataSource(filename=module.path))
    from envoy.config.core.v3 import http_uri_pb2

    url = module.url if "://" in module.url else f"{DEFAULT_SCHEME}://{module.url}"
    uri: http_uri_pb2.HttpUri = http_uri_pb2.HttpUri(
        uri=url, cluster=_NO_CLUSTER, timeout=duration_of(_FETCH_TIMEOUT_S)
    )
    return base_pb2.AsyncDataSource(
        remote=base_pb2.RemoteDataSource(http_uri=uri, sha256=module.sha256)
    )


def _version(module: WasmFields) -> str:
    given = (
        module.url,
        module.sha256,
        module.image_pull_policy,
        module.image_pull_secret,
        module.plugin_name,
        module.plugin_config,
    )
    return sha256(_json(given).encode()).hexdigest()[:16]


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)
