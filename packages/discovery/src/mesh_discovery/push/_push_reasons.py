"""Names the control plane in responses, with the reasons for the push that they are of.

`_changes` finds the reasons, one for each object that changed. They are also in the `last_push` of
each proxy, which `/debug/syncz` shows (`serve/_debug_pages`).
"""

import json

from mesh_discovery._version import version
from xds_server import PushRequest


def control_plane_identifier(push: PushRequest | None, *, name: str) -> str:
    """Return the JSON for `control_plane.identifier`: the fields of Istio's, and the reasons.

    name: of this control plane, among several. push: the push that the responses are of; None for
        answers to requests.
    """
    identifier: dict[str, object] = {
        "Component": "mesh-discovery",
        "ID": name,
        "Info": {"version": version()},
    }
    if push is not None:
        identifier["Push"] = {"Reasons": list(push.described_reasons())}
    return json.dumps(identifier)
