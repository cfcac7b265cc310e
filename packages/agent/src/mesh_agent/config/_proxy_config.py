"""A name of `istio_settings`, as modules of the agent imported it from here."""

from istio_settings import ProxyConfig

__all__ = ["ProxyConfig"]
