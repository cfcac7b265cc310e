"""A cluster that goes away keeps its endpoints until the proxy's routes have changed."""

from envoy_config import Proxy
from mesh_discovery.push._generators import generators
from mesh_discovery.push._served_context import ServedContext
from proxies import proxy_of
from virtual_services import HOST, VERSIONS, model_of
from xds_server import Client, ConfigKey, Node, PushRequest, Watch, type_urls

SERVICE = f"""\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: s, namespace: b}}
spec:
  hosts: [{HOST}]
  resolution: STATIC
  ports: [{{number: 80, name: http, protocol: HTTP}}]
  endpoints: [{{address: 10.0.0.1, labels: {{version: v1}}}}]
"""
V1, GONE, WHOLE = f"outbound|80|v1|{HOST}", f"outbound|80|old|{HOST}", f"outbound|80||{HOST}"


def test_a_push_says_nothing_of_clusters_that_are_gone_and_a_request_is_answered() -> None:
    served = ServedContext(model_of(SERVICE, VERSIONS))
    generator = generators(served, bundle_pem=lambda: b"")[type_urls.ENDPOINT]
    node = Node(id="sidecar~10.0.0.9~c.a~a.svc.cluster.local")
    client: Client[Proxy] = Client(id="1", node=node, identities=(), context=proxy_of(node))
    watch = Watch(type_url=type_urls.ENDPOINT, names=frozenset({V1, GONE, WHOLE}))
    push = PushRequest(configs_updated=frozenset({ConfigKey("ServiceEntry", HOST, "b")}))

    pushed = generator.generate(client, watch, push)
    asked = generator.generate(client, watch, None)

    assert pushed is not None
    assert [each.name for each in pushed.resources] == [V1, WHOLE]
    assert asked is not None
    assert {each.name for each in asked.resources} == {V1, GONE, WHOLE}
