"""Headless services: connections go to the pod that the client chose."""

from capturing import CaptureLab, get, line
from capturing_services import peer_authentication

HEADLESS = """\
apiVersion: v1
kind: Service
metadata: {name: h, namespace: b}
spec:
  clusterIP: None
  selector: {app: h}
  ports:
  - {name: tcp, port: 7000}
  - {name: http, port: 8080}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: b
  labels: {{app: h, security.istio.io/tlsMode: istio}}
spec:
  {{serviceAccountName: h, hostname: {name}, subdomain: h, containers: [{{name: a, image: a}}]}}
status:
  phase: Running
  podIP: {address}
  podIPs: [{{ip: {address}}}]
  conditions: [{{type: Ready, status: "True"}}]
"""
SLICE = """\
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: h-1, namespace: b, labels: {{kubernetes.io/service-name: h}}}}
addressType: IPv4
ports: [{{name: tcp, port: 7000}}, {{name: http, port: 8080}}]
endpoints:
- addresses: [{0}]
  conditions: {{ready: true}}
  targetRef: {{kind: Pod, name: h-0, namespace: b}}
- addresses: [{1}]
  conditions: {{ready: true}}
  targetRef: {{kind: Pod, name: h-1, namespace: b}}
"""


async def test_each_pod_of_a_headless_service_is_reached_by_its_address_and_its_name(
    captured: CaptureLab,
) -> None:
    pods, client = [captured.machine("h-0"), captured.machine("h-1")], captured.machine("c")
    for pod in pods:
        await captured.serve_tcp(pod, 7000)
        await captured.serve_http(pod, 8080)
    captured.write(
        service=HEADLESS,
        pods="---\n".join(POD.format(name=each.name, address=each.address) for each in pods),
        slice=SLICE.format(*(each.address for each in pods)),
        policy=peer_authentication("PERMISSIVE"),
    )
    await captured.sidecar(pods[0], namespace="b", service_account="h")
    await captured.sidecar(client)

    for pod in pods:
        answer = await line(client.namespace, pod.address, 7000, b"hello\n")
        assert answer == f"{pod.name}:hello\n".encode()
        host = f"{pod.name}.h.b.svc.cluster.local:8080"
        reply = await get(client.namespace, pod.address, 8080, host)
        assert reply is not None
        assert reply.json()["app"] == pod.name
        entry = await client.logged(authority=host)
        assert entry["upstream_cluster"] == "outbound|8080||h.b.svc.cluster.local"
    # A pod calls the others, and itself, as any client does.
    for pod in pods:
        answer = await line(pods[0].namespace, pod.address, 7000, b"hello\n")
        assert answer == f"{pod.name}:hello\n".encode()
