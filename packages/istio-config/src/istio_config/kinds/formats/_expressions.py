"""The check of an expression in CEL, as filters of access logs have it.

Envoy refuses the whole listener for an expression that it can't build. So only the part of the
language passes that Envoy 1.40 was seen to accept: no comprehensions (`exists`, `map`), no
messages, no conversion to `string`.
"""

from collections.abc import Mapping

from istio_config.kinds._regular_expressions import regex_mistake
from istio_config.kinds.formats._tokens import ExpressionError, Token, plain_text, tokens

_OF_TIMES = [
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
]
_FUNCTIONS = {
    **dict.fromkeys(
        ["bool", "bytes", "double", "duration", "dyn", "int", "timestamp", "type", "uint"], (1,)
    ),
    "matches": (2,),
    "size": (1,),
}
"""Functions, with how many arguments they may have."""
_METHODS = {
    **dict.fromkeys(_OF_TIMES, (0, 1)),
    "contains": (1,),
    "endsWith": (1,),
    "matches": (1,),
    "size": (0,),
    "startsWith": (1,),
}
_MACROS = frozenset({"all", "exists", "exists_one", "existsOne", "filter", "map"})
ATTRIBUTES = frozenset(
    [
        "connection",
        "destination",
        "filter_state",
        "metadata",
        "request",
        "response",
        "source",
        "upstream",
        "upstream_filter_state",
        "xds",
    ]
)
"""The names that Envoy has values for."""
_TYPES = frozenset(
    ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"]
)
_BINARY = (
    ("||",),
    ("&&",),
    ("<", "<=", ">=", ">", "==", "!=", "in"),
    ("+", "-"),
    ("*", "/", "%"),
)
"""Operators between two values, those that bind least first."""
_LOGICAL = 2
"""So many of them, the first ones, are logical."""
_DEEPEST = 16
_MOST_TOKENS = 400
_LARGEST_PROGRAM = 100
"""Envoy's own bound of regular expressions in CEL."""


def expression_mistake(text: str) -> str | None:
    """Return why Envoy would refuse an expression, or None."""
    try:
        _Parser(tokens(text)).parse()
    except ExpressionError as error:
        return str(error)
    return None


def unknown_names(text: str) -> tuple[str, ...]:
    """Return the names in a valid expression that Envoy has no values for."""
    parser = _Parser(tokens(text))
    parser.parse()
    return tuple(dict.fromkeys(each for each in parser.names if each not in ATTRIBUTES | _TYPES))


class _Parser:
    """Reads tokens by the grammar of CEL."""

    def __init__(self, found: list[Token]) -> None:
        if len(found) > _MOST_TOKENS:
            raise ExpressionError(f"has more than {_MOST_TOKENS} words")
        self._tokens = found
        self._next = 0
        self._brackets = 0
        self.names: list[str] = []
        """The names of values, without what is selected in them."""

    def parse(self) -> None:
        if not self._tokens:
            raise ExpressionError("is empty")
        depth = self._expression()
        if (rest := self._peek()) is not None:
            raise ExpressionError(f'has "{rest.text}" at {rest.at} where it should end')
        if depth > _DEEPEST:
            raise ExpressionError(f"has {depth} operations in one another, of {_DEEPEST} at most")

    # Each of these reads a part, and returns how deep operations are nested in it.

    def _expression(self) -> int:
        self._brackets += 1
        if self._brackets > _DEEPEST:
            raise ExpressionError(f"has more than {_DEEPEST} brackets in one another")
        depth = self._between(0)
        if self._take("?"):
            chosen = self._between(0)
            self._expect(":")
            depth = max(depth, chosen, self._expression()) + 1
        self._brackets -= 1
        return depth + 1

    def _between(self, level: int) -> int:
        if level == len(_BINARY):
            return self._unary()
        depth = self._between(level + 1)
        while (token := self._peek()) is not None and token.text in _BINARY[level]:
            self._next += 1
            right = self._between(level + 1)
            # Envoy nests `a || b || c` one deep, and all other operators once for each.
            depth = max(depth, right) if level < _LOGICAL else max(depth, right) + 1
        return depth

    def _unary(self) -> int:
        for sign in ("!", "-"):
            if self._take(sign):
                if self._take(sign):
                    raise ExpressionError(f'has "{sign}{sign}": leave both out')
                return self._member() + 1
        return self._member()

    def _member(self) -> int:
        depth = self._primary()
        while True:
            if self._take("."):
                name = self._expect("name")
                depth += 1
                if self._take("("):
                    arguments, inside = self._arguments(")")
                    self._call(name, arguments, _METHODS)
                    depth = max(depth, inside)
            elif self._take("["):
                depth = max(depth, self._expression()) + 1
                self._expect("]")
            else:
                return depth

    def _primary(self) -> int:
        token = self._peek()
        if token is None:
            raise ExpressionError("ends where a value should be")
        self._next += 1
        match token.kind:
            case "number" | "text" | "bytes":
                return 1
            case "(":
                depth = self._expression()
                self._expect(")")
                return depth
            case "[":
                return self._arguments("]")[1] + 1
            case "{":
                return self._map() + 1
            case "name":
                return self._name(token) + 1
            case _:
                raise ExpressionError(f'has "{token.text}" at {token.at} where a value should be')

    def _name(self, token: Token) -> int:
        if token.text == "in":
            raise ExpressionError(f'has "in" at {token.at} where a value should be')
        if not self._take("("):
            if token.text not in ("true", "false", "null"):
                self.names.append(token.text)
            return 0
        start = self._next
        arguments, depth = self._arguments(")")
        if token.text == "has":
            self._check_has(token, self._tokens[start : self._next - 1], arguments)
        else:
            self._call(token, arguments, _FUNCTIONS)
        return depth

    def _check_has(
        self, token: Token, inside: list[Token], arguments: list[tuple[Token, ...]]
    ) -> None:
        selects = len(inside) >= 3 and inside[-1].kind == "name" and inside[-2].kind == "."
        if len(arguments) != 1 or not selects:
            raise ExpressionError(f"has has(...) at {token.at} of what is no field, as in has(a.b)")

    def _call(
        self, name: Token, arguments: list[tuple[Token, ...]], known: Mapping[str, tuple[int, ...]]
    ) -> None:
        if name.text in _MACROS:
            raise ExpressionError(f"has {name.text}(...) at {name.at}, which Envoy does not allow")
        if name.text not in known:
            raise ExpressionError(f"has {name.text}(...) at {name.at}, which Envoy does not know")
        if len(arguments) not in known[name.text]:
            raise ExpressionError(f"has {name.text}(...) at {name.at} of {len(arguments)} values")
        if name.text == "matches" and len(arguments[-1]) == 1:
            _check_pattern(arguments[-1][0])

    def _arguments(self, end: str) -> tuple[list[tuple[Token, ...]], int]:
        """Read values up to a bracket; return the tokens of each."""
        found: list[tuple[Token, ...]] = []
        depth = 0
        if self._take(end):
            return found, depth
        while True:
            start = self._next
            depth = max(depth, self._expression())
            found.append(tuple(self._tokens[start : self._next]))
            if self._take(end):
                return found, depth
            self._expect(",")

    def _map(self) -> int:
        depth = 0
        if self._take("}"):
            return depth
        while True:
            key = self._expression()
            self._expect(":")
            depth = max(depth, key, self._expression())
            if self._take("}"):
                return depth
            self._expect(",")

    def _peek(self) -> Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _take(self, kind: str) -> bool:
        token = self._peek()
        if token is None or token.kind != kind:
            return False
        self._next += 1
        return True

    def _expect(self, kind: str) -> Token:
        token = self._peek()
        if token is None:
            raise ExpressionError(f'ends where "{kind}" should be')
        if token.kind != kind:
            raise ExpressionError(f'has "{token.text}" at {token.at} where "{kind}" should be')
        self._next += 1
        return token


def _check_pattern(token: Token) -> None:
    """Check a regular expression that is a literal; Envoy compiles others for each request."""
    if token.kind != "text":
        return
    text = plain_text(token.text)
    if text is None:
        raise ExpressionError(f"has a regular expression at {token.at} with escapes: write r'...'")
    if (wrong := regex_mistake(text, most_instructions=_LARGEST_PROGRAM)) is not None:
        raise ExpressionError(f"has matches at {token.at}: {wrong}")
