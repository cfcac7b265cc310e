"""Check that the tree keeps to the words of docs/vocabulary.md.

Looks at every word of the Python files and documents, also inside identifiers:
`SocketKeeper` and `_keeper` both hold the word keeper. A docstring of a package's source has a
subject: it does not begin with "What", "Who" or "It"; a function's is an order, and one that
answers yes or no begins with "Return whether". Names in a package's source say what a thing is:
none has "made" or "told" in it, and no function is named "of".
"""

from __future__ import annotations

import ast
import io
import os
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

from workspace import ROOT

INSTEAD = {
    "bequeath": "hand over",
    "blind": "what it does not see",
    "captured": "redirected",
    "comes to nothing": "unreachable, shadowed, without effect",
    "families": "metrics, address families, or the epochs of one base id",
    "fleet": "the Envoy processes, or the thing's own name",
    "front": "acceptor",
    "gatekeeper": "the rule that decides, and on what",
    "hardly meant": "probably not meant",
    "heir": "child",
    "inherit": "take over",
    "keeper": "what it keeps, and how: retention, rotation",
    "lean": "what is left out",
    "ledger": "delivery status",
    "legacy": "what the parent left, or the older form",
    "members": "processes, streams, clients",
    "news": "change, event",
    "nobody": "no client, no caller, no part",
    "roster": "the streams",
    "stand-in": "the name of what it does",
    "story": "what it tells",
    "those to whom": "the clients that",
    "turns": "queue, becomes",
    "whoever": "the caller that, the client that",
    "wish": "request",
    "world": "model, push context",
}
INSTEAD_IN_NAMES = {
    "made": "what it is: listener, clusters, message; of a function, its verb: build, generate",
    "told": "findings, messages, reported, sent",
    "of": "build, get, for_host, from_text: what it does",
}
"""Words that are no name and no part of one; "of" is no whole name of a function."""
_NAMES_OF_OTHERS = frozenset({"connection_made"})
"""Names that the standard library has given: here `asyncio.Protocol`."""
ALLOWED = re.compile(
    # Terms of others in which a word means what everyone knows by it.
    r"state[ _-]of[ _-]the[ _-]world|world[- ](readable|writable)|hello,? world"
    r"|in[ -]front[ -]of|up front|address[ _]families|text_string_to_metric_families"
    # The older of the two programs that are called iptables.
    r"|ip6?tables[-_]legacy|\"legacy\"|nft, legacy|legacy or nft|binary[ =]legacy"
    r"|metric families|ipFamilies|__members__|REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORDS = re.compile(
    r"(?<![a-z])(" + "|".join(word.replace("-", "[-_]") for word in INSTEAD) + r")s?(?![a-z])"
)
NO_SUBJECT = frozenset({"What", "Who", "Whom", "Whose", "Those", "It", "Its", "They"})
OTHER_VERBS = re.compile(r"(Tells?|Says?) whether\b|Returns\b|Yields\b|Tells\b|Says\b|Raises\b")
"""Beginnings of a function's docstring for which the tree has one form: Return, Yield, Raise."""
_SUFFIXES = frozenset({".py", ".md", ".toml", ".proto"})
_OF_TOOLS = frozenset({"build", "dist", "node_modules"})
# They say which words these are.
_EXCEPT = frozenset({"docs/vocabulary.md", "tools/vocabulary.py", "tools/tests/test_vocabulary.py"})


def found_in(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number of the line and the word, for each word that is not used here."""
    for number, line in enumerate(text.splitlines(), start=1):
        spaced = _CAMEL.sub("_", ALLOWED.sub("", line)).lower()
        for match in _WORDS.finditer(spaced):
            yield number, match[1]


def without_subject(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the first word of each docstring that does not begin with a subject."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, documented) and (text := ast.get_docstring(node)):
            first = text.split()[0].rstrip(",;:")
            if first in NO_SUBJECT:
                yield getattr(node, "lineno", 1), first
            elif is_function(node) and (other := OTHER_VERBS.match(text)):
                yield getattr(node, "lineno", 1), other[0]


def empty_names(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the word of each name that says nothing of what it names."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and token.string not in _NAMES_OF_OTHERS:
            parts = _CAMEL.sub("_", token.string).lower().split("_")
            for word in ("made", "told"):
                if word in parts:
                    yield token.start[0], word
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == "of":
            yield node.lineno, "of"


def is_function(node: ast.AST) -> bool:
    """Return whether a node is a function, whose docstring is an order."""
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))


def instead_of(word: str) -> str:
    """Return what is said in place of a word that `found_in` yields."""
    return INSTEAD.get(word) or INSTEAD["stand-in"]


def files(root: Path) -> Iterator[Path]:
    """Yield the files that hold code or text of ours; those of tools are in folders with a dot."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            each for each in folders if not each.startswith((".", "__")) and each not in _OF_TOOLS
        )
        for name in sorted(names):
            file = Path(folder, name)
            ours = file.suffix in _SUFFIXES and not name.endswith(("_pb2.py", "_pb2.pyi"))
            if ours and str(file.relative_to(root)) not in _EXCEPT:
                yield file


def main(root: Path) -> int:
    """Print each word that is not used here, with its place; return 1 if there is any."""
    count = 0
    for file in files(root):
        for line, word in found_in(file.read_text()):
            print(f"{file.relative_to(root)}:{line}: {word}: say {instead_of(word)}")
            count += 1
        if file.suffix == ".py" and "src" in file.relative_to(root).parts:
            for line, word in without_subject(file.read_text()):
                place = f"{file.relative_to(root)}:{line}"
                print(f"{place}: {word}…: a docstring begins with its subject, or Return, Yield")
                count += 1
            for line, word in empty_names(file.read_text()):
                place = f"{file.relative_to(root)}:{line}"
                print(f"{place}: {word} in a name: say {INSTEAD_IN_NAMES[word]}")
                count += 1
    print(f"vocabulary: {count} words that docs/vocabulary.md does not have", file=sys.stderr)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(Path(*sys.argv[1:]) if sys.argv[1:] else ROOT))
