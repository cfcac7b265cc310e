"""Reads a random mesh as the control plane does."""

from pathlib import Path
from tempfile import TemporaryDirectory

from envoy_config import PushContext
from mesh_configfile import Problem
from mesh_discovery import ConfigLoader
from mesh_model import Facts, build_model


def loaded(yaml: str) -> tuple[PushContext, tuple[Problem, ...]]:
    """Return the context that serves these documents, and what is wrong with them."""
    with TemporaryDirectory() as directory:
        Path(directory, "mesh.yaml").write_text(yaml)
        load = ConfigLoader(Path(directory)).load()
    return PushContext(build_model(Facts(snapshot=load.snapshot))), tuple(load.problems)
