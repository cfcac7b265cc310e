"""Finds VirtualServices that are left out for what their regular expressions cost Envoy."""

from collections.abc import Iterator

from istio_config.expression_cost import MAX_NAMESPACE_COST
from istio_config.kinds.virtual_service import VIRTUAL_SERVICE
from mesh_configfile import Problem
from mesh_model import MeshModel


def over_budget(model: MeshModel) -> Iterator[Problem]:
    """Yield a problem for each that is left out; for a translated one, at its source."""
    left_out = model.virtual_services.left_out
    for item in model.rules.of_kind(VIRTUAL_SERVICE) if left_out else ():
        if (item.namespace, item.name) in left_out:
            yield item.problem(
                ("spec",),
                "has no effect: with it and what is older, the regular expressions of namespace "
                f"{item.namespace} would cost each proxy more than {MAX_NAMESPACE_COST} "
                "instructions, each counted as often as the proxy has it: make them smaller or "
                "fewer",
            )


def same_left_out(old: MeshModel, new: MeshModel) -> bool:
    """Return whether the same objects of two models are left out."""
    if not old.virtual_services.left_out and not new.virtual_services.left_out:
        return True
    return old.virtual_services is new.virtual_services
