"""The AuthorizationPolicies of a proxy: who may call its workload, and what.

Equal ones make the same filters.
"""

from typing import NamedTuple

from mesh_discovery.model._model import MeshModel
from mesh_discovery.model.policies._workload_rules import Workload


class Authorization(NamedTuple):
    """The policies that a proxy enforces, with all that their filters depend on."""


NO_AUTHORIZATION = Authorization()


def authorization_of(workload: Workload, model: MeshModel) -> Authorization:
    """Return the policies for a workload."""
    del workload, model
    return NO_AUTHORIZATION
