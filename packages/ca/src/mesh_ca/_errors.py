"""The errors of a certificate authority, one class for each party that can act on them."""


class CaError(Exception):
    """The root of this package's errors."""


class CsrError(CaError):
    """The signing request is at fault; the text is fit for the caller who sent it."""


class LifetimeError(CaError):
    """The lifetime asked for can't be given; the text is fit for the caller who asked."""


class IdentityError(CaError):
    """This authority can't or may not certify an identity."""


class NotReadyError(CaError):
    """The authority's own certificate is not valid now, so nothing can be signed."""


class SignersUnavailable(CaError):
    """No signer process has signed in time, or too many requests wait; asking again may help."""


class StorageError(CaError):
    """Files of this package are missing, damaged, mismatched or unreadable.

    The text names the file and says what would be right.
    """


class FetchError(CaError):
    """A key set could not be fetched; the text names the URL and the reason."""


class NotAuthenticated(CaError):
    """The caller could not be authenticated.

    The text is for the log, and may name other identities, keys and files. `public_reason` is the
    part that the caller may learn, empty for nothing: only what follows from the credentials that
    the caller has shown, so that its operator need not look into the control plane's log.
    """

    def __init__(self, reason: str, *, public_reason: str = "") -> None:
        super().__init__(reason)
        self.public_reason = public_reason

    @classmethod
    def public(cls, reason: str) -> "NotAuthenticated":
        """Return an error of which the caller may learn the whole text."""
        return cls(reason, public_reason=reason)

    @property
    def status_message(self) -> str:
        """The message of the gRPC status; it begins as that of Istio's control plane."""
        if not self.public_reason:
            return NOT_AUTHENTICATED
        return f"{NOT_AUTHENTICATED}: {self.public_reason}"


NOT_AUTHENTICATED = "request authenticate failure"
