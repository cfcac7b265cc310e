"""The RequestAuthentications of a proxy: which tokens (JWT) of requests it looks at.

Equal ones make the same filters. Issuers stand in the order of their names, the objects oldest
first, those of the root namespace before: the first issuer of whom a token is right counts.
"""

from operator import attrgetter
from typing import NamedTuple

from istio_config.kinds.request_authentication import REQUEST_AUTHENTICATION, JwtRule
from mesh_model import MeshModel, Workload


class Issuer(NamedTuple):
    """The tokens of one issuer, with the key set by which they are checked."""

    rule: JwtRule
    keys: str


class Tokens(NamedTuple):
    """The issuers whose tokens a proxy verifies, in the order in which it tries them."""

    issuers: tuple[Issuer, ...] = ()


NO_TOKENS = Tokens()


def tokens_of(workload: Workload, model: MeshModel) -> Tokens:
    """Return the issuers whose tokens a workload's proxy verifies."""
    applying = model.workload_rules.applying(REQUEST_AUTHENTICATION, workload)
    rules = (rule for each in applying for rule in each.spec.jwt_rules)
    ordered = sorted(rules, key=attrgetter("issuer"))
    return Tokens(tuple(Issuer(rule, model.key_sets.get(rule)) for rule in ordered))
