"""The RequestAuthentications of a proxy: which tokens (JWT) of requests it looks at.

Equal ones make the same filters.
"""

from typing import NamedTuple

from mesh_discovery.model._model import MeshModel
from mesh_discovery.model.policies._workload_rules import Workload


class Tokens(NamedTuple):
    """The issuers of tokens, with the keys by which they are checked."""


NO_TOKENS = Tokens()


def tokens_of(workload: Workload, model: MeshModel) -> Tokens:
    """Return the issuers whose tokens a workload's proxy looks at."""
    del workload, model
    return NO_TOKENS
