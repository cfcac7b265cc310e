"""Services and rules as users write them."""

from documents import document


def service(
    name: str,
    *endpoints: str,
    namespace: str = "a",
    port: str = "{number: 80, name: http, protocol: HTTP}",
    account: str = "s",
    more: str = "",
) -> str:
    listed = ", ".join(
        f"{{address: {each}, serviceAccount: {account}}}" for each in endpoints or ("10.1.0.1",)
    )
    return (
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n"
        f"metadata: {{name: {name}, namespace: {namespace}}}\n"
        f"spec: {{hosts: [{name}.{namespace}.svc.cluster.local], location: MESH_INTERNAL, "
        f"resolution: STATIC, ports: [{port}], endpoints: [{listed}]{more}}}\n"
    )


def egress(*hosts: str, name: str = "imports", selector: str = "") -> str:
    listed = ", ".join(f'"{each}"' for each in hosts)
    chosen = f"workloadSelector: {{labels: {{{selector}}}}}, " if selector else ""
    return document("Sidecar", name, f"{{{chosen}egress: [{{hosts: [{listed}]}}]}}")


def route(host: str, destination: str, *, name: str = "routes", more: str = "") -> str:
    spec = (
        f"{{hosts: [{host}], http: [{{{more}route: [{{destination: {{host: {destination}}}}}]}}]}}"
    )
    return document("VirtualService", name, spec)
