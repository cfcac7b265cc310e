"""Type URLs of protobuf messages, as text."""


def type_in(url: str) -> str:
    """Return the name of the type in a type URL; empty if the URL is none."""
    return url.rpartition("/")[2] if "/" in url else ""
