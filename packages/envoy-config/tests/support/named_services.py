"""Services of the mesh, each with names and addresses of another sort."""

WEB = "web.default.svc.cluster.local"


def entry(name: str, spec: str, *, namespace: str = "default", labels: str = "") -> str:
    return (
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n"
        f"metadata: {{name: {name}, namespace: {namespace}, labels: {{{labels}}}}}\n"
        f"spec: {{location: MESH_INTERNAL, {spec}}}\n"
    )


HTTP = "ports: [{number: 80, name: http, protocol: HTTP}]"
TCP = "ports: [{number: 9000, name: tcp, protocol: TCP}]"
STATIC = "resolution: STATIC, endpoints: [{address: 10.0.0.1}, {address: 10.0.0.2}]"
DOCUMENTS = (
    entry("web", f"hosts: [{WEB}], {HTTP}, {STATIC}"),
    entry("other", f"hosts: [web.other.svc.cluster.local], {HTTP}, {STATIC}", namespace="other"),
    entry("fixed", f"hosts: [fixed.test], addresses: [10.9.9.9, 10.8.0.0/16], {TCP}, {STATIC}"),
    entry("mixed", "hosts: [mixed.test], addresses: [10.9.9.8], resolution: STATIC, "
          "ports: [{number: 80, name: http, protocol: HTTP}, "
          "{number: 9001, name: tcp, protocol: TCP}]"),
    entry("wild", f"hosts: ['*.wild.test'], {HTTP}, resolution: STATIC"),
    entry("none", f"hosts: [none.test], {HTTP}, resolution: NONE"),
    entry("headless", f"hosts: [headless.default.svc.cluster.local], {HTTP}, {STATIC}",
          labels="networking.istio.io/enable-autoallocate-ip: 'false'"),
    entry("hidden", f"hosts: [hidden.test], {HTTP}, {STATIC}, exportTo: [.]", namespace="other"),
)  # fmt: skip
