"""The errors that callers can act on."""


class DnsProxyError(Exception):
    """The root of this package's errors."""


class ConfigError(DnsProxyError):
    """A setting that can never work; the message names it and what would be right."""


class AddressInUse(DnsProxyError):
    """A configured address cannot be listened on."""


class NameTableError(DnsProxyError):
    """A name table that cannot be read; the message says where."""
