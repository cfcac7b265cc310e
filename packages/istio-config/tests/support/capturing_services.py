"""Services of machines to whose proxies traffic is redirected, as users write them."""

from istio_config.kinds.protocol import Protocol


def service(
    name: str,
    *addresses: str,
    port: int = 80,
    target: int = 8080,
    port_name: str = "http",
    vip: str | None = "10.9.0.1",
    account: str | None = None,
) -> str:
    """Return the ServiceEntry of a service in namespace b.

    port_name: a protocol, which the port declares; or another name, and the port declares none.
    vip: None, it has no address.
    """
    named = Protocol.from_port_name(port_name)
    protocol = f", protocol: {named}" if named is not None else ""
    own = f"  addresses: [{vip}]\n" if vip else ""
    endpoints = "".join(
        f'  - {{address: "{each}", serviceAccount: {account or name}, labels: {{app: {name}}}}}\n'
        for each in addresses
    )
    return (
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n"
        f"metadata: {{name: {name}, namespace: b}}\nspec:\n"
        f"  hosts: [{name}.b.svc.cluster.local]\n  location: MESH_INTERNAL\n"
        f"  resolution: STATIC\n{own}  ports:\n"
        f"  - {{number: {port}, name: {port_name}{protocol}, targetPort: {target}}}\n"
        f"  endpoints:\n{endpoints}"
    )


def peer_authentication(mode: str, *, ports: str = "", app: str = "") -> str:
    """Return a policy for the mesh, or for the workloads of namespace b with a label `app`."""
    metadata = "{name: default, namespace: istio-system}"
    spec = f"spec:\n  mtls: {{mode: {mode}}}\n"
    if app:
        metadata = f"{{name: {app}, namespace: b}}"
        spec += f"  selector: {{matchLabels: {{app: {app}}}}}\n"
    if ports:
        spec += f"  portLevelMtls: {{{ports}}}\n"
    return (
        f"apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {metadata}\n{spec}"
    )


def entry(name: str, spec: str) -> str:
    """Return a ServiceEntry of namespace b; spec: its fields, a line each."""
    fields = "".join(f"  {each.strip()}\n" for each in spec.strip().splitlines())
    return (
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n"
        f"metadata: {{name: {name}, namespace: b}}\nspec:\n{fields}"
    )
