"""A setting of the mesh has one value, which is passed: no function below has one of its own."""

import ast
from collections.abc import Iterator
from pathlib import Path

import mesh_discovery

SOURCES = Path(mesh_discovery.__file__).parent
BELOW = ("model", "plan", "generate", "push", "patch")
BEGINNING = ("build_model",)
"""Where settings have their defaults, for those who have a mesh without a control plane."""
SETTINGS = frozenset(
    {
        "default_trust_domain",
        "domain",
        "domain_suffix",
        "trust_domain",
        "trust_domains",
        "root_namespace",
        "own_namespace_only",
        "scope_gateways",
        "strict_namespaces",
        "is_strict",
        "owners",
        # of mesh config
        "default_retries",
        "mesh_interception",
        "mesh_keepalive",
        "mesh_upgrade",
    }
)
TEXTS = frozenset({"cluster.local", "istio-system"})


def defaults(tree: ast.Module) -> Iterator[tuple[int, str, ast.expr]]:
    """Yield each parameter of a function or field of a class that has a default."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name in BEGINNING:
                continue
            arguments = node.args
            positional = (*arguments.posonlyargs, *arguments.args)
            last = positional[len(positional) - len(arguments.defaults) :]
            for argument, value in (
                *zip(last, arguments.defaults, strict=True),
                *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
            ):
                if value is not None:
                    yield node.lineno, argument.arg, value
        elif isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, ast.AnnAssign) and each.value is not None:
                    yield each.lineno, ast.unparse(each.target), each.value


def test_no_setting_of_the_mesh_has_a_default_below_the_model() -> None:
    found = [
        f"{path.relative_to(SOURCES)}:{line} {name} = {ast.unparse(value)}"
        for folder in BELOW
        for path in sorted((SOURCES / folder).rglob("*.py"))
        for line, name, value in defaults(ast.parse(path.read_text()))
        if name in SETTINGS or (isinstance(value, ast.Constant) and value.value in TEXTS)
    ]
    assert found == []
