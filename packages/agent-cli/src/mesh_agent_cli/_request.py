"""Send a request to one of the agent's or Envoy's local ports and pass the answer on as it is."""

from __future__ import annotations

from mesh_agent_cli._errors import CliError
from mesh_agent_cli._http import Unanswered, local_url, send

PORTS = (15000, 15004, 15020, 15021)
_TIMEOUT_S = 60.0


def request(method: str, path: str, body: str | None, *, address: str, port: int) -> bytes:
    """Return the answer's body. A 404 is an answer, any other status over 399 a failure.

    Raises:
        CliError: no answer, or a failure status.
    """
    url = local_url(address, port, path)
    try:
        answer = send(
            method.upper(),
            url,
            body=None if body is None else body.encode(),
            timeout_s=_TIMEOUT_S,
        )
    except Unanswered as error:
        raise CliError(f"{method.upper()} {url}: {error}") from None
    if answer.status > 399 and answer.status != 404:
        said = " ".join(answer.body[:500].decode("utf-8", "replace").split())
        raise CliError(
            f"{method.upper()} {url}: unsuccessful status code {answer.status}"
            + (f" ({said})" if said else "")
        )
    return answer.body


def check_port(port: int) -> None:
    """Raise CliError unless the port is one of the agent's or Envoy's local ones."""
    if port not in PORTS:
        allowed = ", ".join(str(allowed) for allowed in PORTS)
        raise CliError(f"debug port {port} is not one of {allowed}", exit_code=2)
