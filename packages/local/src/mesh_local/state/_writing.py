"""Puts a mesh's generated configuration, keys and secrets into its state folder."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from mesh_ca import CaError, TokenIssuer, load_or_create_authority
from mesh_local._errors import StateError
from mesh_local.config._plan import Instance, MeshPlan
from mesh_local.state._configuration_files import write_configuration
from mesh_local.state._folder import LABELS, StateFolder, remove_shared_memory, write_file
from mesh_local.state._istio import instance_labels
from mesh_local.state._roots import authority_roots, write_roots
from mesh_local.state._tokens import write_tokens


def write_everything(plan: MeshPlan, state: StateFolder, issuer: TokenIssuer) -> None:
    """Write the generated configuration, keys and tokens; raises `StateError`."""
    with _translated_errors(state):
        authority = load_or_create_authority(state.ca, trust_domain=plan.file.mesh.trust_domain)
        issuer.write_jwks(state.jwks)
        write_configuration(plan, config=state.config, mesh_config=state.mesh_config)
        for instance in plan.instances:
            _write_agent_files(instance, state, issuer, roots_pem=authority.root_pem)


def write_agent_files(instance: Instance, state: StateFolder, issuer: TokenIssuer) -> None:
    """Write what a replica's agent reads at its start, and no more; raises `StateError`.

    What an earlier agent of this name has left goes: it may have had another identity.
    """
    with _translated_errors(state):
        directory = state.workload(instance.name)
        if directory.exists():
            remove_shared_memory(directory)
            shutil.rmtree(directory)
        _write_agent_files(instance, state, issuer, roots_pem=authority_roots(state))


def remove_agent_files(instance: Instance, state: StateFolder) -> None:
    """Remove the directory of a replica whose agent has stopped."""
    shutil.rmtree(state.workload(instance.name), ignore_errors=True)


def _write_agent_files(
    instance: Instance, state: StateFolder, issuer: TokenIssuer, *, roots_pem: bytes
) -> None:
    write_tokens(issuer, [instance], state)
    write_roots(roots_pem, [instance], state)
    labels = instance_labels(instance).items()
    text = "".join(f'{name}="{value}"\n' for name, value in labels)
    write_file(state.workload(instance.name) / LABELS, text)


@contextmanager
def _translated_errors(state: StateFolder) -> Iterator[None]:
    try:
        yield
    except CaError as error:
        raise StateError(f"the state folder {state.path} can't be used: {error}") from error
    except OSError as error:
        raise StateError(
            f"the state folder {state.path} can't be written: {error.strerror}"
        ) from None
