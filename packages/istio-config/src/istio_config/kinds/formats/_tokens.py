"""The words of an expression in CEL, with what Envoy would refuse among them."""

import re
from typing import NamedTuple


class ExpressionError(ValueError):
    """An expression that Envoy would refuse; the message says where and why."""


class Token(NamedTuple):
    """A word, and the index of its first character."""

    kind: str
    """`name`, `number`, `text`, `bytes`, or the operator itself."""
    text: str
    at: int


_SPACE = re.compile(r"(?:[ \t\r\n\f]+|//[^\n]*(?:\n|\Z))+")
_NUMBER = re.compile(r"0x[0-9a-fA-F]+u?|(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[uU]?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TEXT = re.compile(r"([rR]?)([bB]?)([rR]?)(\"(?:[^\"\\\n\r]|\\.)*\"|'(?:[^'\\\n\r]|\\.)*')")
_RAW = re.compile(r"([rR])([bB]?)()(\"[^\"\n\r]*\"|'[^'\n\r]*')")
_OPERATOR = re.compile(r"&&|\|\||==|!=|<=|>=|[-+*/%!<>?:.,()\[\]{}]")
_ESCAPE = re.compile(
    r"\\(?:[abfnrtv\\?\"'`]|x[0-9a-fA-F]{2}|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}|[0-3][0-7]{2})"
)
_SIGNED, _UNSIGNED = 2**63 - 1, 2**64 - 1
_RESERVED = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
_LONGEST = 4000


def tokens(text: str) -> list[Token]:
    """Take an expression apart; raises `ExpressionError`."""
    if len(text) > _LONGEST:
        raise ExpressionError(f"is longer than {_LONGEST} characters")
    found = []
    at = 0
    while at < len(text):
        if (space := _SPACE.match(text, at)) is not None:
            at = space.end()
            continue
        token, at = _token(text, at)
        found.append(token)
    return found


def plain_text(literal: str) -> str | None:
    """Return the text that a literal stands for; None if it has escapes that matter."""
    raw = literal[0] in "rR"
    inner = literal[literal.index(literal[-1]) + 1 : -1]
    if raw or "\\" not in inner:
        return inner
    return inner.replace("\\\\", "\\") if not re.search(r"(?<!\\)\\[^\\]", inner) else None


def _token(text: str, at: int) -> tuple[Token, int]:
    word = _RAW.match(text, at) or _TEXT.match(text, at)
    if word is not None:
        quoted = word[4]
        is_raw = bool(word[1] or word[3])
        if text.startswith(quoted[0], word.end()) and len(quoted) == 2:
            raise ExpressionError(f'has """ at {at}: write the text between single quotes')
        if not is_raw and "\\" in _ESCAPE.sub("", quoted):
            raise ExpressionError(f"has an unknown escape in {quoted} at {at}")
        return Token("bytes" if word[2] else "text", word[0], at), word.end()
    for kind, pattern in (("name", _NAME), ("number", _NUMBER), ("", _OPERATOR)):
        found = pattern.match(text, at)
        if found is None:
            continue
        if kind == "name" and found[0] in _RESERVED:
            raise ExpressionError(f'has "{found[0]}" at {at}, which is a reserved word')
        if kind == "number":
            _check_number(found[0], at)
        return Token(kind or found[0], found[0], at), found.end()
    raise ExpressionError(f"can't be read at {at}: {text[at : at + 20]!r}")


def _check_number(text: str, at: int) -> None:
    plain = text.rstrip("uU")
    if "." in plain or (not plain.startswith("0x") and "e" in plain.lower()):
        if plain != text:
            raise ExpressionError(f"has the number {text} at {at}, which is not a whole one")
        return
    most = _UNSIGNED if plain != text else _SIGNED
    if int(plain, 16 if plain.startswith("0x") else 10) > most:
        raise ExpressionError(f"has the number {text} at {at}, which is too large")
