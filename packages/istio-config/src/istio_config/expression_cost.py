"""How much a regular expression costs Envoy, found from its text and without compiling it.

Envoy compiles the expressions of a route in its main thread, for each virtual host that has the
route. RE2 writes counted repetitions out: `.{0,999}` becomes 9 000 instructions. The control plane
does not compile an expression to find that out, as that would cost it as much.
"""

import re
from functools import lru_cache

_LONGEST_KEPT = 1024
_QUADRATIC_FROM = 256
"""RE2 walks a program from each of its alternatives, so that the time grows with the square of the
size; it shows in programs larger than this."""

MAX_OBJECT_COST = 250_000
"""The most for all expressions of an object: a tenth of a second of Envoy's main thread."""
MAX_NAMESPACE_COST = 1_000_000
"""The most for all expressions in the routes of a namespace, each as often as a proxy has it."""

# In instructions, measured with RE2 of 2025-11.
_PROLOGUE = 6
_ANY = 9
_COMPLEMENT = 12
_NOT_ASCII = 8
_UNICODE_CLASS = 1400
"""Of `[\\pL\\pN]`, which is among the largest."""
_SHORTHANDS = {".": _ANY, r"\w": 4, r"\s": 4} | dict.fromkeys((r"\D", r"\W", r"\S"), _COMPLEMENT)
_FOLDED = 4
"""How much more a letter is if its case does not matter: k is K and the sign of Kelvin, too."""

_PARTS = re.compile(
    r"""
      \\Q(?P<quoted>.*?)(?:\\E|\Z)
    | \\[pP](?:\{[^}]*\}|.?)(?P<unicode>)
    | \[\^?\]?(?:\[:[^]]*:\]|\\.|[^]\\])*\]?(?P<set>)
    | \\x\{[^}]*\}(?P<escaped>)
    | \(\?[a-zA-Z-]*\)(?P<flags>)
    | \((?:\?(?:P?<[^>]*>|[a-zA-Z-]*:))?(?P<open>)
    | \)(?P<close>)
    | [*+?]+(?P<some>)
    | \{(?P<least>[0-9]{1,4})(?P<range>,(?P<most>[0-9]{0,4}))?\}\??(?P<counted>)
    | (?:\\.|.)(?P<one>)
    """,
    re.VERBOSE | re.DOTALL,
)

_RANGE = re.compile(r"(?:\\.|[^\\])-[^]]", re.DOTALL)


def compile_cost(text: str) -> int:
    """Return how much Envoy has to do to compile an expression; a unit is half a microsecond.

    It is the size of the program, and of a large program a multiple of that.
    """
    size = program_size(text) if len(text) > _LONGEST_KEPT else _kept_program_size(text)
    return size * (1 + size // _QUADRATIC_FROM)


@lru_cache(maxsize=4096)
def _kept_program_size(text: str) -> int:
    return program_size(text)


def program_size(text: str) -> int:
    """Return about how many instructions RE2 compiles an expression to, rather too many.

    A text that is no valid expression has a size, too.
    """
    folded = _FOLDED if re.search(r"\(\?[a-zA-Z]*i", text) else 1
    outer: list[int] = []  # the sizes of what stands before each group that is open
    before, last = _PROLOGUE, 0  # what stands before in this group, and what may be repeated
    for part in _PARTS.finditer(text):
        match part.lastgroup:
            case "open":
                outer.append(before + last)
                before, last = 0, 2
            case "close":
                last += before
                before = outer.pop() if outer else 0
            case "some":
                last += 1
            case "counted":
                least = int(part["least"])
                most = int(part["most"] or least + 1) if part["range"] else least
                last = last * max(1, most) + max(0, most - least)
            case "flags":
                pass
            case kind:
                before += last
                last = _size(kind or "", part) * (1 if part[0] == "." else folded)
    return sum(outer) + before + last


def group_count(text: str) -> int:
    """Return how many groups of a valid expression a replacement can name."""
    return sum(
        part.lastgroup == "open" and (part[0] == "(" or "<" in part[0])
        for part in _PARTS.finditer(text)
    )


def _size(kind: str, part: "re.Match[str]") -> int:
    """Return the size of what matches one character, or of a quoted text."""
    text = part[0]
    match kind:
        case "unicode":
            return _UNICODE_CLASS
        case "set":
            return _size_of_set(text)
        case "quoted":
            return len(part["quoted"].encode())
        case "escaped":
            return 4
        case _:
            return _SHORTHANDS.get(text) or len(text.encode())


def _size_of_set(text: str) -> int:
    return (
        len(_RANGE.sub("x", text[1:-1]))
        + _COMPLEMENT * (text[1:2] == "^")
        + _UNICODE_CLASS * len(re.findall(r"\\[pP]", text))
        + _COMPLEMENT * len(re.findall(r"\\[DWS]|\[:\^", text))
        + _NOT_ASCII * (len(text.encode()) - len(text) + text.count(r"\x{"))
    )
