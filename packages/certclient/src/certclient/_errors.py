"""The errors of this package, grouped by how a caller can react."""


class CertClientError(Exception):
    """Root of all errors that this package raises on purpose."""


class InvalidConfig(CertClientError, ValueError):
    """A setting that can't work; the message names it and what would be right."""


class AuthorityUnavailable(CertClientError):
    """The certificate authority was not reached, or can't answer now: try again later."""


class SigningRefused(CertClientError):
    """The certificate authority refused the request, and would refuse it again."""


class CertificateRejected(CertClientError):
    """A certificate of an authority or in a file failed a check, and is not used."""


class InvalidPem(CertClientError, ValueError):
    """PEM that is not a certificate, key or bundle, or a certificate that is not of its key."""


class SourceUnavailable(CertClientError):
    """The source of certificates has none that is usable now: try again later."""


class HookFailed(CertClientError):
    """The command or signal after a renewal failed."""


class NoCertificate(CertClientError, TimeoutError):
    """There was no certificate in the time that the caller waited; the message has the reason."""


class RenewalFailed(CertClientError):
    """A renewal that the caller waited for brought no certificate."""


class FeedClosed(CertClientError):
    """The source of certificates was closed; no further one will come."""
