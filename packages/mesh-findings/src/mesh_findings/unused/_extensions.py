"""Finds extensions whose modules can't be pulled; problems say where in the files."""

from collections.abc import Iterator

from istio_config.kinds.traffic_extension import (
    DEFAULT_SCHEME,
    EXTENSION_KINDS,
    WASM_PLUGIN,
    FailStrategy,
    WasmFields,
)
from mesh_configfile import FieldPath, Problem
from mesh_model import MeshModel

_DOCKER = "kubernetes.io/dockerconfigjson"


def unused_extensions(model: MeshModel) -> Iterator[Problem]:
    """Yield a problem for each module whose registry needs a Secret that there is not."""
    for kind in EXTENSION_KINDS:
        path: FieldPath = ("spec",) if kind is WASM_PLUGIN else ("spec", "wasm")
        for rule in model.workload_rules.of_kind(kind):
            module: WasmFields | None = rule.spec.module
            if module is None or not module.image_pull_secret or module.scheme != DEFAULT_SCHEME:
                continue
            if model.secrets.pull_secret(rule.namespace, module.image_pull_secret):
                continue
            passes = module.fail_strategy is FailStrategy.FAIL_OPEN
            yield model.workload_rules.object_of(rule).problem(
                (*path, "imagePullSecret"),
                f"there is no Secret {module.image_pull_secret} of type {_DOCKER} in namespace "
                f"{rule.namespace}: the module is not pulled, and traffic "
                f"{'passes without it' if passes else 'is refused'}",
            )


def same_extensions(old: MeshModel, new: MeshModel) -> bool:
    """Return whether `unused_extensions` finds the same in both."""
    return old.workload_rules is new.workload_rules and old.secrets is new.secrets
