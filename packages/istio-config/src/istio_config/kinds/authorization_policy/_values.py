"""Checks of values that sources, operations and conditions have in common.

Source: Istio's API, security/v1, and its validation.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from istio_config.addresses import is_ip
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding

Values: TypeAlias = tuple[str, ...]
_LONGEST_VALUE = 2048
"""Some become regular expressions, and Envoy refuses a listener for one that is too large."""
_MOST_SERVICE_ACCOUNTS = 16
_LONGEST_SERVICE_ACCOUNT = 320
"""Both are the bounds of Istio's API (security/v1beta1/authorization_policy.proto)."""


def value_mistakes(values: Sequence[str], path: FieldPath) -> Iterator[Finding]:
    """Yield the values that are empty or too long."""
    for index, each in enumerate(values):
        if not each:
            yield (*path, index), 'is empty; "*" stands for any value'
        elif len(each) > _LONGEST_VALUE:
            yield (*path, index), f"is longer than {_LONGEST_VALUE} characters"


def address_mistakes(values: Sequence[str], path: FieldPath) -> Iterator[Finding]:
    """Yield the values that are neither an address nor a range."""
    for index, each in enumerate(values):
        if each and not _is_range(each):
            yield (*path, index), f'"{each}" is not an address or a range such as 10.0.0.0/8'


def _is_range(text: str) -> bool:
    """Return whether this is an address or a range, below whose prefix bits may be set."""
    address, slash, length = text.partition("/")
    if not is_ip(address):
        return False
    most = 128 if ":" in address else 32
    return not slash or (length.isascii() and length.isdigit() and int(length) <= most)


def port_mistakes(values: Sequence[str], path: FieldPath) -> Iterator[Finding]:
    """Yield the values that are no ports."""
    for index, each in enumerate(values):
        if each and not (each.isascii() and each.isdigit() and 1 <= int(each) <= 65535):
            yield (*path, index), f'"{each}" is not a port; expected a number from 1 to 65535'


def service_account_mistakes(values: Sequence[str], path: FieldPath) -> Iterator[Finding]:
    """Yield the values that name no service account, and that there are too many."""
    if len(values) > _MOST_SERVICE_ACCOUNTS:
        yield path, f"has {len(values)} values; {_MOST_SERVICE_ACCOUNTS} are the most"
    for index, each in enumerate(values):
        namespace, slash, name = each.rpartition("/")
        if not each:
            continue
        if "*" in each:
            yield (*path, index), f'"{each}" has a wildcard; service accounts are named exactly'
        elif not name or "/" in namespace or (slash and not namespace):
            yield (*path, index), f'"{each}" is not NAME or NAMESPACE/NAME'
        elif len(each) > _LONGEST_SERVICE_ACCOUNT:
            yield (*path, index), f"is longer than {_LONGEST_SERVICE_ACCOUNT} characters"


def asterisk_warnings(values: Sequence[str], path: FieldPath) -> Iterator[Finding]:
    """Yield the values with an asterisk that stands for itself, where one may think otherwise."""
    for index, each in enumerate(values):
        if "*" in each[1:-1] or (len(each) > 1 and each[0] == each[-1] == "*"):
            yield (
                (*path, index),
                (
                    f'"{each}" has "*" inside, which is taken as it is there: it stands for any '
                    "text only at the beginning or at the end"
                ),
            )
