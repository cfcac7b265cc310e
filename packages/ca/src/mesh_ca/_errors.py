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
    """Who calls could not be established. The reason is for the log, never for the caller."""
