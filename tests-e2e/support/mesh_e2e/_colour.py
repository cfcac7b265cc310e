"""A service `colour` of one endpoint, which is the workload `blue` or `green`: each says its name.

A change of the endpoint is seen in the answers.
"""

from mesh_e2e._load import Target
from mesh_local import RunningMesh

COLOUR_MESH = """\
    workloads:
      - {name: blue, ports: [{port: 8080}], command: ECHO}
      - {name: green, ports: [{port: 8080}], command: ECHO}
      - {name: frontend}
"""


def colour(mesh: RunningMesh) -> Target:
    """Return how the frontend's Envoy is asked for it."""
    outbound = mesh.workload("frontend").instance.addresses.outbound
    return Target(host=outbound, port=15002, url="http://colour:8080/", authority="colour:8080")


def colour_at(mesh: RunningMesh, workload: str) -> str:
    """Return the service, whose one endpoint is this workload, in YAML."""
    address = mesh.workload(workload).instance.addresses.inbound
    return f"""\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: colour, namespace: default}}
spec:
  hosts: [colour.default.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{{number: 8080, name: http, protocol: HTTP}}]
  endpoints:
    - address: {address}
      serviceAccount: {workload}
      labels: {{security.istio.io/tlsMode: istio}}
"""


def configure_colour(mesh: RunningMesh, text: str) -> None:
    """Give the control plane a text for the service, as editors save: by a file in its place."""
    file = mesh.state.config / "colour.yaml"
    beside = file.with_name(f".{file.name}.new")
    beside.write_text(text)
    beside.replace(file)
