"""The answers to an application: JSON as in RFC 6749 section 5 and RFC 8693 section 2.2."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

_JSON: Final = "application/json"
_NO_STORE: Final = MappingProxyType({"Cache-Control": "no-store", "Pragma": "no-cache"})
_ERROR_URI: Final = "https://www.rfc-editor.org/rfc/rfc8693.html#section-2.2.2"
_MAX_DESCRIPTION = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole HTTP response.

    headers: besides the content type, which has a field of its own.
    """

    status: int
    content_type: str
    body: bytes = field(repr=False)
    headers: Mapping[str, str]


def success(fields: Mapping[str, object]) -> Answer:
    """Return the answer with status 200."""
    return _answer(200, fields)


def failure(status: int, code: str, description: str, **headers: str) -> Answer:
    """Return the answer that tells an error code, and a description in characters that are allowed.

    RFC 6749 section 5.2 names them: ASCII that is printable, without quotation mark and backslash.
    """
    shown = "".join(
        "'" if each == '"' else each if " " <= each <= "~" and each != "\\" else "?"
        for each in description[:_MAX_DESCRIPTION]
    )
    document = {"error": code, "error_description": shown, "error_uri": _ERROR_URI}
    return _answer(status, document, **headers)


def _answer(status: int, fields: Mapping[str, object], **headers: str) -> Answer:
    return Answer(
        status=status,
        content_type=_JSON,
        body=json.dumps(fields).encode(),
        headers={**_NO_STORE, **headers},
    )
