"""Values of tags of metrics: expressions of Istio's, and the formats by which Envoy makes the same.

Istio's own filter evaluates them as CEL with Envoy's attributes, and has the proxy's node as `node`
besides. Here each is a format of access logs.
"""

from istio_config.kinds.formats._expressions import ATTRIBUTES, expression_mistake, unknown_names
from istio_config.kinds.formats._tokens import plain_text, tokens

_NODE = "node"
_NODE_OF_ENVOY = "xds.node"


def metric_tag_format(expression: str) -> str | None:
    """Return the format for an expression; None if there is none (`metric_tag_mistake`)."""
    if metric_tag_mistake(expression) is not None:
        return None
    found = tokens(expression)
    if len(found) == 1 and found[0].kind == "text":
        # Said as it is: evaluating an expression takes a request longer.
        text = plain_text(found[0].text)
        if text:
            return text.replace("%", "%%")
    return f"%CEL({_for_envoy(expression)})%"


def metric_tag_mistake(expression: str) -> str | None:
    """Return why Envoy can't make the value of an expression, or None."""
    if (wrong := expression_mistake(expression)) is not None:
        return f"Envoy would refuse it: it {wrong}"
    found = tokens(expression)
    if len(found) == 1 and found[0].kind == "text" and plain_text(found[0].text):
        return None
    if "%" in expression:
        return "has a %, which can't be said to Envoy within a format"
    unknown = [each for each in unknown_names(expression) if each != _NODE]
    if unknown:
        known = ", ".join(sorted((*ATTRIBUTES, _NODE)))
        return f'"{unknown[0]}" is none of Envoy\'s attributes; known: {known}'
    return None


def _for_envoy(expression: str) -> str:
    """Return an expression with the proxy's node under the name that Envoy has for it."""
    parts, at, before = [], 0, ""
    for token in tokens(expression):
        if token.kind == "name" and token.text == _NODE and before != ".":
            parts += [expression[at : token.at], _NODE_OF_ENVOY]
            at = token.at + len(token.text)
        before = token.text
    return "".join((*parts, expression[at:]))
