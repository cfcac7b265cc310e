"""The problems of a model, where a test wants nothing else."""

from mesh_configfile import Problem
from mesh_findings import review
from mesh_model import MeshModel


def unreachable(model: MeshModel) -> tuple[Problem, ...]:
    """Return a problem for everything that is unreachable or shadowed, in order."""
    return review(model).problems
