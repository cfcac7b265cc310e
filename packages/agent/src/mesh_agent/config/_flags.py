"""The values of the command line of `mesh-agent proxy`."""

import json
from collections.abc import Sequence
from typing import Self

import msgspec


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of the command line; empty and zero mean not given.

    role: `sidecar` or `router`.
    proxy_log_level: Envoy's level, with `component:level` items after it if wanted.
    template_file: a bootstrap of the user's own.
    outlier_log: the file for outlier detection's events.
    log_levels, log_as_json, log_target, log_caller, log_stacktrace_level, log_rotate...: the
        agent's own log, see `mesh_lifecycle.LogSettings`; sizes in bytes, ages in days.
    version: the agent's, which the control plane is sent.
    passed: further flags and their values, which have no effect.
    sts_port: where tokens are exchanged for the application, on this machine only.
    token_manager_plugin: the source of those tokens; ours is `Rfc8693`.
    exit_with: the id or the name of a process; the agent ends when that has ended.
    command: the application that the agent starts itself once it is ready; empty for none.
    added_variables: environment variables that the agent was given and the application is not.
    """

    role: str = "sidecar"
    domain: str = ""
    mesh_config: str = "./etc/istio/config/mesh"
    service_cluster: str = ""
    proxy_log_level: str = "warning"
    proxy_component_log_level: str = ""
    concurrency: int = 0
    template_file: str = ""
    outlier_log: str = ""
    envoy_path: str = ""
    log_levels: str = "default:info"
    log_as_json: bool = False
    log_target: Sequence[str] = ("stdout",)
    log_caller: str = ""
    log_stacktrace_level: str = "default:none"
    log_rotate: str = ""
    log_rotate_max_size: int = 100 << 20
    log_rotate_max_age: int = 30
    log_rotate_max_backups: int = 1000
    version: str = "unknown"
    passed: tuple[tuple[str, str], ...] = ()
    sts_port: int = 0
    token_manager_plugin: str = ""
    exit_with: str = ""
    command: tuple[str, ...] = ()
    added_variables: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the flags in a JSON object, as the command hands them to the agent's process."""
        values = json.loads(text)
        values["log_target"] = tuple(values["log_target"])
        passed = tuple((name, value) for name, value in values.pop("passed", ()))
        for name in ("command", "added_variables"):
            values[name] = tuple(values.get(name, ()))
        return cls(**values, passed=passed)
