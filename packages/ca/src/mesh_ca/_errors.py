"""What can go wrong in a certificate authority, by who can act on it."""


class CaError(Exception):
    """The root of this package's errors."""


class CsrError(CaError):
    """The signing request is at fault; the text is fit for the caller who sent it."""


class LifetimeError(CaError):
    """The lifetime asked for can't be given; the text is fit for the caller who asked."""


class IdentityError(CaError):
    """An identity this authority can't or may not certify."""


class NotReadyError(CaError):
    """The authority's own certificate is not valid now, so nothing can be signed."""


class StorageError(CaError):
    """Files of this package are missing, damaged, mismatched or unreadable.

    The text names the file and says what would be right.
    """


class FetchError(CaError):
    """A key set could not be fetched; the text names the URL and the reason."""


class NotAuthenticated(CaError):
    """Who calls could not be established.

    The text is for the log, and may name other identities, keys and files. `told` is what of it the
    caller may hear, empty for nothing: only what follows from the credentials it has shown, in
    words of ours, so that an operator need not look into the control plane's log for it.
    """

    def __init__(self, reason: str, *, told: str = "") -> None:
        super().__init__(reason)
        self.told = told

    @classmethod
    def openly(cls, reason: str) -> "NotAuthenticated":
        """One whose reason the caller may hear."""
        return cls(reason, told=reason)

    @property
    def answer(self) -> str:
        """The text of the answer; it begins as that of Istio's control plane."""
        return f"{NOT_AUTHENTICATED}: {self.told}" if self.told else NOT_AUTHENTICATED


NOT_AUTHENTICATED = "request authenticate failure"
