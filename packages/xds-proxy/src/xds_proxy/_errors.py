"""The errors of the relay that a caller sees.

A message that cannot be read is a `WireError`, which is mesh_protowire's; so is `BeyondLimit`, for
one beyond a bound of the relay's own.
"""

from __future__ import annotations


class XdsProxyError(Exception):
    """Root of every error this package raises, but `WireError`."""


class ConfigError(XdsProxyError):
    """A configuration value that can never work; names the field and what would be right."""


class SocketError(XdsProxyError):
    """Envoy's socket cannot be created at its path."""


class TranslationError(XdsProxyError):
    """A message that has no form in the other dialect, or too large a one."""


class InterceptorRefused(XdsProxyError):
    """Raised by an interceptor that cannot use a response; its text becomes the NACK's message."""


class RewriteRefused(XdsProxyError):
    """Raised by a rewriter that cannot use a response; its text becomes the NACK's message."""


class NotConnected(XdsProxyError):
    """There is no stream to the control plane that a question could be asked on."""


class NoAnswer(XdsProxyError):
    """The control plane has not answered a question in time."""
