"""What can go wrong while a certificate is asked for, by what the caller can do about it."""


class CertClientError(Exception):
    """Root of every error this package raises on purpose."""


class InvalidConfig(CertClientError, ValueError):
    """A setting that can't work; the message says which and what would be right."""


class AuthorityUnavailable(CertClientError):
    """The certificate authority could not be asked, or can't answer now: try again later."""


class SigningRefused(CertClientError):
    """The certificate authority answered no: the same request will be refused again."""


class CertificateRejected(CertClientError):
    """A certificate that an authority returned, or that files hold, failed our check: not taken."""


class InvalidPem(CertClientError, ValueError):
    """PEM that is no certificate, key or bundle; or a certificate that is not of its key."""


class SourceUnavailable(CertClientError):
    """Certificates can't be had from where they should come from: try again later."""


class HookFailed(CertClientError):
    """A command or signal that was to follow a renewal did not work."""


class RenewalFailed(CertClientError):
    """A renewal that was waited for did not bring a certificate."""


class FeedClosed(CertClientError):
    """Whoever published certificates has stopped; no further one will come."""
