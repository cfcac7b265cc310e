"""TLS settings of a client that trusts given roots, and only those."""

import ssl


class NoUsableRoots(ValueError):
    """The text holds no PEM certificate that OpenSSL can read."""


def roots_context(roots_pem: bytes) -> ssl.SSLContext:
    """Return settings that check a server, and its name, against `roots_pem` alone; TLS 1.2 and up.

    Text between the certificates may be in any character set. Raises NoUsableRoots, also for an
    empty text: `ssl.create_default_context` would silently trust the system's roots then.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(cadata=roots_pem.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError) as error:
        raise NoUsableRoots("there is no PEM certificate") from error
    return context
