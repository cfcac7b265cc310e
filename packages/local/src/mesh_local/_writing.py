"""Puts a mesh's generated configuration, keys and secrets into its state folder."""

from mesh_ca import CaError, TokenIssuer, load_or_create_authority
from mesh_local._errors import StateError
from mesh_local._istio import instance_labels, mesh_config, mesh_documents, to_yaml
from mesh_local._plan import MeshPlan
from mesh_local._roots import write_roots
from mesh_local._state import LABELS, StateFolder, write_file
from mesh_local._tokens import write_tokens


def write_everything(plan: MeshPlan, state: StateFolder, issuer: TokenIssuer) -> None:
    """Write the generated configuration, keys and tokens; raises `StateError`."""
    try:
        authority = load_or_create_authority(state.ca, trust_domain=plan.file.mesh.trust_domain)
        issuer.write_jwks(state.jwks)
        write_tokens(issuer, plan, state)
        write_file(state.mesh_config, to_yaml([mesh_config(plan)]))
        write_file(state.config / "mesh-local.yaml", to_yaml(mesh_documents(plan)))
        if plan.file.config:
            write_file(state.config / "from-mesh-file.yaml", to_yaml(plan.file.config))
        if plan.file.config_dir is not None:
            # The control plane follows links, so the user's edits arrive as they are saved.
            (state.config / "user").symlink_to(plan.file.config_dir.resolve())
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
