"""The settings that a control plane puts among a module's environment variables for the agent.

None of them may reach Envoy, as the pull secret is one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from wasm_modules._errors import FetchError
from wasm_modules._source import ModuleRequest, PullPolicy

CONTROL_PREFIX: Final = "ISTIO_META_"
PULL_SECRET: Final = "ISTIO_META_WASM_IMAGE_PULL_SECRET"  # noqa: S105 - a name
PULL_POLICY: Final = "ISTIO_META_WASM_IMAGE_PULL_POLICY"
RESOURCE_VERSION: Final = "ISTIO_META_WASM_PLUGIN_RESOURCE_VERSION"


def is_control_setting(name: str) -> bool:
    """Return whether an environment variable is for the agent."""
    return name.startswith(CONTROL_PREFIX)


def module_request(
    *, url: str, checksum: str, timeout_s: float | None, environment: Mapping[str, str]
) -> ModuleRequest:
    """Return what a filter asks for; raises FetchError for a pull secret that is empty."""
    secret = environment.get(PULL_SECRET)
    if secret is not None and not secret.strip():
        raise FetchError(f"{PULL_SECRET} is empty: the secret was not found, or has nothing in it")
    return ModuleRequest(
        url=url,
        checksum=checksum,
        policy=PullPolicy.parse(environment.get(PULL_POLICY, "")),
        resource_version=environment.get(RESOURCE_VERSION, ""),
        pull_secret=secret,
        timeout_s=timeout_s,
    )
