"""Reads a body of type application/x-www-form-urlencoded, as RFC 6749 appendix B describes it.

Nothing is guessed: an escape that is none, and text that is not UTF-8, are refused.
"""

import re
from urllib.parse import unquote_to_bytes

from mesh_token_exchange._errors import InvalidRequest

_NO_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


def parse_form(body: bytes, *, max_parameters: int) -> list[tuple[str, str]]:
    """Return names and values in the order of the body; raises InvalidRequest.

    Empty parts, as between two `&`, are skipped; a name without `=` has an empty value.
    """
    if body.count(b"&") >= max_parameters:
        raise InvalidRequest(f"more than {max_parameters} parameters")
    if not body.isascii():
        raise InvalidRequest("the form has bytes that are not ASCII: they must be escaped")
    if _NO_ESCAPE.search(body):
        raise InvalidRequest("the form has a % that begins no escape")
    pairs = []
    for part in body.split(b"&"):
        if part:
            name, _, value = part.partition(b"=")
            pairs.append((_decoded(name), _decoded(value)))
    return pairs


def _decoded(text: bytes) -> str:
    try:
        return unquote_to_bytes(text.replace(b"+", b" ")).decode()
    except UnicodeDecodeError:
        problem = "the form has escapes that are not UTF-8"
    # Not inside the handler: the other error holds the bytes, which may be a token.
    raise InvalidRequest(problem)
