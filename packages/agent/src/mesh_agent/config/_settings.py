"""Names of `istio_settings`, as modules of the agent imported them from here."""

from istio_settings import Settings, is_address

__all__ = ["Settings", "is_address"]
