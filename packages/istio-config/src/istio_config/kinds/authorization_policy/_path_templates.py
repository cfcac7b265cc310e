"""Paths with operators: `{*}` stands for one segment, `{**}` for any number of them.

Envoy ends itself when it loads a rule with a wrong template, so nothing doubtful is let through.
"""

import re

_LITERAL = re.compile(r"[A-Za-z0-9\-._~!$&'()+,;:@=%]+")
_ONE, _ANY = "{*}", "{**}"


def is_template(path: str) -> bool:
    """Return whether a path has operators."""
    return _ONE in path or _ANY in path


def template_mistake(path: str) -> str | None:
    """Return what is wrong with a path with operators, or None."""
    if not path.startswith("/"):
        return f'"{path}" has operators, and does not begin with "/"'
    segments = path[1:].split("/")
    after_any = False
    for each in segments:
        if each in (_ONE, _ANY):
            if after_any:
                return f'"{path}": nothing with an operator can come after "{_ANY}"'
            after_any = each == _ANY
            continue
        if "{" in each or "}" in each:
            return f'"{path}": an operator must be a whole segment, "{_ONE}" or "{_ANY}"'
        if each and not _LITERAL.fullmatch(each):
            return f'"{path}": "{each}" has characters that can\'t stand in a path with operators'
    if "" in segments[:-1]:
        return f'"{path}" has an empty segment'
    return None


def envoy_template(path: str) -> str:
    """Spell a path with operators as Envoy does."""
    return path.replace(_ANY, "**").replace(_ONE, "*")
