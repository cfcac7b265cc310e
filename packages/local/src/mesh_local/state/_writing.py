"""Puts a mesh's generated configuration, keys and secrets into its state folder."""

from pathlib import Path

from mesh_ca import CaError, TokenIssuer, load_or_create_authority
from mesh_local._errors import StateError
from mesh_local.config._plan import MeshPlan
from mesh_local.state._folder import LABELS, StateFolder, write_file
from mesh_local.state._istio import (
    instance_labels,
    policy_documents,
    to_yaml,
    workload_documents,
)
from mesh_local.state._istio import (
    mesh_config as mesh_config_document,
)
from mesh_local.state._roots import write_roots
from mesh_local.state._tokens import write_tokens

WORKLOADS = "workloads"
FROM_MESH_FILE = "from-mesh-file"
USER = "user"


def write_everything(plan: MeshPlan, state: StateFolder, issuer: TokenIssuer) -> None:
    """Write the generated configuration, keys and tokens; raises `StateError`."""
    try:
        authority = load_or_create_authority(state.ca, trust_domain=plan.file.mesh.trust_domain)
        issuer.write_jwks(state.jwks)
        write_tokens(issuer, plan, state)
        write_configuration(plan, config=state.config, mesh_config=state.mesh_config)
        write_roots(authority.root_pem, plan, state)
        for instance in plan.instances:
            directory = state.workload(instance.name)
            labels = instance_labels(instance).items()
            write_file(directory / LABELS, "".join(f'{name}="{value}"\n' for name, value in labels))
    except CaError as error:
        raise StateError(f"the state folder {state.path} can't be used: {error}") from error
    except OSError as error:
        raise StateError(
            f"the state folder {state.path} can't be written: {error.strerror}"
        ) from None


def write_configuration(plan: MeshPlan, *, config: Path, mesh_config: Path) -> None:
    """Write the control plane's files; each document that a user wrote has a file of its own."""
    write_file(mesh_config, to_yaml([mesh_config_document(plan)]))
    write_file(config / "mesh-local.yaml", to_yaml(policy_documents(plan)))
    for workload in plan.file.workloads:
        documents = to_yaml(workload_documents(plan, workload))
        write_file(config / WORKLOADS / f"{workload.name}.yaml", documents)
    for index, document in enumerate(plan.file.config):
        write_file(config / FROM_MESH_FILE / f"{index}.yaml", to_yaml([document]))
    if plan.file.config_dir is not None:
        # The control plane follows links, so the user's edits arrive as they are saved.
        (config / USER).symlink_to(plan.file.config_dir.resolve())
