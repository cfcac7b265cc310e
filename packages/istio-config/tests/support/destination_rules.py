"""DestinationRules in YAML, as tests of traffic write them."""

from textwrap import indent


def rule(
    spec: str = "",
    *,
    name: str = "s",
    namespace: str = "b",
    host: str = "s.b.svc.cluster.local",
    created: str = "",
) -> str:
    """Return a rule; spec: further fields of its spec, in block style."""
    stamp = f", creationTimestamp: '{created}'" if created else ""
    return (
        "apiVersion: networking.istio.io/v1\nkind: DestinationRule\n"
        f"metadata: {{name: {name}, namespace: {namespace}{stamp}}}\n"
        f"spec:\n  host: '{host}'\n{indent(spec.strip(chr(10)), '  ')}\n"
    )


def policy(text: str, **names: str) -> str:
    """Return a rule that has a traffic policy and nothing else; text: in flow style."""
    return rule(f"trafficPolicy: {text}", **names)
