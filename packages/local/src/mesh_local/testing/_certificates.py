"""TLS contexts with a workload's identity, for clients and servers that a test runs itself."""

import ssl
import tempfile
from pathlib import Path

from mesh_ca import load_or_create_authority
from mesh_local.state._folder import StateFolder, write_file


def tls_context(
    state: StateFolder, *, trust_domain: str, spiffe_id: str, server: bool
) -> ssl.SSLContext:
    """Return a context with a new certificate for this identity, and the mesh's roots.

    A peer must show a certificate of the mesh, whatever its name: SPIFFE ids are no host names.
    """
    authority = load_or_create_authority(state.ca, trust_domain=trust_domain)
    key, chain = authority.issue_server_certificate([spiffe_id])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=authority.root_pem.decode())
    # The ssl module reads keys from files alone.
    with tempfile.TemporaryDirectory(dir=state.path, prefix=".tls-") as folder:
        for name, content in (("key.pem", key), ("chain.pem", chain)):
            write_file(Path(folder, name), content)
        context.load_cert_chain(Path(folder, "chain.pem"), Path(folder, "key.pem"))
    return context
