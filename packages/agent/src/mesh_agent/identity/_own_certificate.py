"""The workload certificate as the agent itself shows it to the control plane."""

from collections.abc import Callable
from datetime import UTC, datetime

import xds_proxy
from mesh_agent.identity._workload_secrets import ForeignSecrets, OwnSecrets


def own_certificate(
    secrets: OwnSecrets | ForeignSecrets,
) -> Callable[[], xds_proxy.ClientCertificate | None] | None:
    """Return the function by which the relay gets the newest certificate, if it is valid.

    None where another process holds the workload's key.
    """
    if isinstance(secrets, ForeignSecrets):
        return None
    certificates = secrets.certificates

    def latest() -> xds_proxy.ClientCertificate | None:
        held = certificates.latest
        if held is None or held.not_after <= datetime.now(UTC):
            return None
        return xds_proxy.ClientCertificate(chain_pem=held.chain_pem, key_pem=held.private_key_pem)

    return latest
