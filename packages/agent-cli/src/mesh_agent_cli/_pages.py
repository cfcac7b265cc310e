"""The pages of a running agent, for commands of other packages."""

from __future__ import annotations

from collections.abc import Mapping


def fetch_page(path: str, *, address: str, port: int, purpose: str) -> Mapping[str, object]:
    """Return the JSON object that an agent's status port has at a path.

    purpose: of the question, as in `ask the agent for its status`.

    Raises:
        CliError: there is none; the text says whether the program may be another one.
    """
    from mesh_agent_cli._http import fetch_object, local_url

    url = local_url(address, port, path)
    return fetch_object(url, purpose=purpose, program="a mesh-agent")
