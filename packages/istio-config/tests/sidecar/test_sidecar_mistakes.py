"""What is refused in a Sidecar, with its place, and what is accepted with a warning."""

import pytest
import yaml

from istio_config.kinds.metadata import Metadata
from istio_config.kinds.sidecar._egress import EgressHost, parse_egress_host
from istio_config.kinds.sidecar._ingress import (
    DefaultEndpoint,
    InstanceEndpoint,
    LoopbackEndpoint,
    OriginalEndpoint,
    SocketEndpoint,
    parse_default_endpoint,
)
from istio_config.kinds.sidecar._kind import SIDECAR
from mesh_configfile import field_name


def read(text: str) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the mistakes and the warnings, by the names of their fields."""
    body = SIDECAR.read(yaml.safe_load(text), (), Metadata(name="s", namespace="shop"))
    mistakes, warnings = body.mistakes, body.warnings
    return (
        [(field_name(path), message) for path, message in mistakes],
        [(field_name(path), message) for path, message, _ in warnings],
    )


GOOD = """
workloadSelector: {labels: {app: web}}
ingress:
- port: {number: 9080, protocol: HTTP, name: http}
  bind: 10.0.0.1
  defaultEndpoint: unix:///run/app.sock
  captureMode: NONE
  connectionPool: {http: {http1MaxPendingRequests: 10}}
- port: {number: 9443, protocol: TLS, name: tls}
  defaultEndpoint: "[::1]:8443"
  tls: {mode: SIMPLE, serverCertificate: /c, privateKey: /k}
- port: {number: 9090, protocol: TCP, name: tcp}
egress:
- port: {number: 0, protocol: MONGO, name: db}
  bind: unix:///run/db.sock
  hosts: [./db.example.com]
- port: {number: 3128, protocol: HTTP_PROXY, name: proxy}
  bind: 127.0.0.1
  captureMode: NONE
  hosts: ["*/*"]
- hosts: ["./*", istio-system/*, "*/*.example.com", ~/secret.example.com, ~other/*]
inboundConnectionPool: {http: {http2MaxRequests: 5}}
outboundTrafficPolicy:
  mode: ALLOW_ANY
  egressProxy: {host: out.example.com, port: {number: 80}, subset: v1}
"""


def test_every_field_can_be_used() -> None:
    mistakes, warnings = read(GOOD)

    assert mistakes == []
    assert [path for path, _ in warnings] == ["ingress[1].tls"]


def egress(text: str) -> str:
    return f"egress: [{{hosts: ['*/*'], {text}}}]"


MISTAKES = {
    "empty": ("{}", "", "says nothing; give egress, ingress"),
    "selector alone": ("workloadSelector: {labels: {a: b}}", "", "says nothing"),
    "null listener": ("egress: [null]", "egress[0]", "expected a mapping, found nothing"),
    "label": (
        "{workloadSelector: {labels: {a: '*'}}, outboundTrafficPolicy: {}}",
        "workloadSelector.labels.a",
        '"*" is not the value of a label',
    ),
    "no ingress port": ("ingress: [{bind: 1.2.3.4}]", "ingress[0]", "the field port is missing"),
    "ingress port 0": (
        "ingress: [{port: {number: 0, protocol: HTTP}}]",
        "ingress[0].port.number",
        "expected a number from 1 to 65535, found 0",
    ),
    "ingress port twice": (
        "ingress: [{port: {number: 1}}, {port: {number: 1}, bind: 1.2.3.4}]",
        "ingress[1].port.number",
        "another ingress listener has the port 1",
    ),
    "ingress bind": (
        "ingress: [{port: {number: 1}, bind: unix:///a}]",
        "ingress[0].bind",
        '"unix:///a" is not an IP address',
    ),
    "default endpoint": (
        "ingress: [{port: {number: 1}, defaultEndpoint: 10.0.0.1:80}]",
        "ingress[0].defaultEndpoint",
        '"10.0.0.1:80" must be unix:///path, or a port of 127.0.0.1, [::1], 0.0.0.0 or [::]',
    ),
    "default endpoint's port": (
        "ingress: [{port: {number: 1}, defaultEndpoint: '127.0.0.1:http'}]",
        "ingress[0].defaultEndpoint",
        '"127.0.0.1:http" must be',
    ),
    "ingress protocol": (
        "ingress: [{port: {number: 1, protocol: HTTPX}}]",
        "ingress[0].port.protocol",
        'unknown protocol "HTTPX"',
    ),
    "ingress http proxy": (
        "ingress: [{port: {number: 1, protocol: HTTP_PROXY}}]",
        "ingress[0].port.protocol",
        "HTTP_PROXY is for egress listeners",
    ),
    "port name": (
        "ingress: [{port: {number: 1, name: a.b}}]",
        "ingress[0].port.name",
        '"a.b" can\'t name a port',
    ),
    "empty pool": (
        "ingress: [{port: {number: 1}, connectionPool: {}}]",
        "ingress[0].connectionPool",
        "is empty",
    ),
    "tls of a plain port": (
        "ingress: [{port: {number: 1, protocol: HTTP}, tls: {mode: PASSTHROUGH}}]",
        "ingress[0].tls",
        "needs a port with the protocol HTTPS or TLS",
    ),
    "mesh's tls": (
        "ingress: [{port: {number: 1, protocol: TLS}, tls: {mode: ISTIO_MUTUAL}}]",
        "ingress[0].tls.mode",
        "ISTIO_MUTUAL is not for Sidecars",
    ),
    "credential": (
        "ingress: [{port: {number: 1, protocol: TLS}, tls: {mode: SIMPLE, credentialName: c}}]",
        "ingress[0].tls.credentialName",
        "is for gateways only",
    ),
    "redirect": (
        "ingress: [{port: {number: 1, protocol: TLS}, tls: {httpsRedirect: true}}]",
        "ingress[0].tls.httpsRedirect",
        "is for gateways only",
    ),
    "no certificate": (
        "ingress: [{port: {number: 1, protocol: TLS}, tls: {mode: SIMPLE}}]",
        "ingress[0].tls.mode",
        "",
    ),
    "no hosts": ("egress: [{}]", "egress[0].hosts", "must name at least one host"),
    "no namespace": (
        "egress: [{hosts: [a.b]}]",
        "egress[0].hosts[0]",
        '"a.b" has no namespace; write ./a.b for the own one, or */a.b for any',
    ),
    "namespace": ("egress: [{hosts: [a_b/*]}]", "egress[0].hosts[0]", '"a_b" is not a namespace'),
    "host": ("egress: [{hosts: [a/b..c]}]", "egress[0].hosts[0]", '"b..c" is not a host name'),
    "first without port": (
        "egress: [{hosts: ['*/*']}, {hosts: ['*/*'], port: {number: 1}}]",
        "egress[0]",
        "a listener without a port must be the last",
    ),
    "two without port": (
        "egress: [{hosts: ['*/*']}, {hosts: ['*/*']}]",
        "egress[0]",
        "only the last listener can be without a port",
    ),
    "port 0": (egress("port: {number: 0}"), "egress[0].port.number", "may be 0 only where bind"),
    "bind": (egress("port: {number: 1}, bind: here"), "egress[0].bind", '"here" is not an IP'),
    "bind alone": (egress("bind: 127.0.0.1"), "egress[0].bind", "needs a port beside it"),
    "socket and port": (
        egress("port: {number: 1}, bind: 'unix:///a'"),
        "egress[0].port.number",
        "must be 0 for a Unix socket",
    ),
    "relative socket": (
        egress("port: {}, bind: 'unix://a'"),
        "egress[0].bind",
        '"unix://a" must be unix:// and an absolute path',
    ),
    "redirected socket": (
        egress("port: {}, bind: 'unix:///a', captureMode: IPTABLES"),
        "egress[0].captureMode",
        "IPTABLES redirects nothing to a Unix socket",
    ),
    "socket twice": (
        (
            "egress: [{hosts: ['*/*'], port: {}, bind: 'unix:///a'},"
            " {hosts: ['*/*'], port: {}, bind: 'unix:///a'}]"
        ),
        "egress[1].bind",
        "another listener is bound to unix:///a",
    ),
    "proxy without port": (
        "outboundTrafficPolicy: {mode: ALLOW_ANY, egressProxy: {host: a.b}}",
        "outboundTrafficPolicy.egressProxy",
        "the field port.number is missing",
    ),
    "proxy's host": (
        "outboundTrafficPolicy: {mode: ALLOW_ANY, egressProxy: {host: '*.b', port: {number: 1}}}",
        "outboundTrafficPolicy.egressProxy.host",
        '"*.b" is not a host name',
    ),
    "proxy and registry": (
        "outboundTrafficPolicy: {egressProxy: {host: a.b, port: {number: 1}}}",
        "outboundTrafficPolicy.egressProxy",
        "needs mode ALLOW_ANY beside it",
    ),
    "proxy's subset": (
        (
            "outboundTrafficPolicy:"
            " {mode: ALLOW_ANY, egressProxy: {host: a.b, port: {number: 1}, subset: a.b}}"
        ),
        "outboundTrafficPolicy.egressProxy.subset",
        '"a.b" can\'t name a subset',
    ),
    "dynamic DNS": (
        "outboundTrafficPolicy: {mode: ALLOW_ANY_DYNAMIC_DNS}",
        "outboundTrafficPolicy.mode",
        "ALLOW_ANY_DYNAMIC_DNS is for mesh config",
    ),
}


@pytest.mark.parametrize(("text", "field", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_reported_with_its_field(text: str, field: str, message: str) -> None:
    mistakes, _ = read(text)

    assert [(at, said[: len(message)]) for at, said in mistakes] == [(field, message)]


WARNINGS = {
    "selector": (
        "{workloadSelector: {}, egress: [{hosts: ['*/*']}]}",
        ("workloadSelector", "has no labels: it selects every workload of the namespace"),
    ),
    "host twice": (
        "egress: [{hosts: [./*, ./*]}]",
        ("egress[0].hosts[1]", '"./*" is there already'),
    ),
    "beside everything": (
        "egress: [{hosts: ['*/*', a/b, ~/c]}]",
        ("egress[0].hosts[1]", '"*/*" has every host already'),
    ),
    "target port": (
        "ingress: [{port: {number: 1, protocol: TCP, targetPort: 2}}]",
        (
            "ingress[0].port.targetPort",
            "is deprecated and has no effect; use defaultEndpoint",
        ),
    ),
    "default endpoint without an address": (
        "ingress: [{port: {number: 1, protocol: TCP}, defaultEndpoint: ':2'}]",
        (
            "ingress[0].defaultEndpoint",
            (
                "names no address, so that its port has no effect, as in Istio: connections go to "
                "the port 1 of the workload; 127.0.0.1:2 and 0.0.0.0:2 lead to that one"
            ),
        ),
    ),
    "http pool of tcp": (
        "ingress: [{port: {number: 1, protocol: TCP}, connectionPool: {http: {maxRetries: 1}}}]",
        (
            "ingress[0].connectionPool.http",
            "has no effect on the port 1, which is not HTTP",
        ),
    ),
}


@pytest.mark.parametrize(("text", "warning"), WARNINGS.values(), ids=WARNINGS)
def test_what_is_probably_not_meant_is_reported(text: str, warning: tuple[str, str]) -> None:
    assert read(text) == ([], [warning])


ENDPOINTS: dict[str, DefaultEndpoint | None] = {
    "127.0.0.1:80": LoopbackEndpoint(address="127.0.0.1", port=80),
    "[::1]:80": LoopbackEndpoint(address="::1", port=80),
    "0.0.0.0:80": InstanceEndpoint(port=80),
    "[::]:80": InstanceEndpoint(port=80),
    "unix:///a/b": SocketEndpoint(path="/a/b"),
    "unix://@a": SocketEndpoint(path="@a"),
    "unix://a": None,
    "unix://": None,
    "localhost:80": None,
    "127.0.0.1:0": None,
    "127.0.0.1": None,
    ":80": OriginalEndpoint(port=80),
    ":0": None,
}


@pytest.mark.parametrize(("text", "endpoint"), ENDPOINTS.items())
def test_default_endpoints_are_ports_of_the_workload_or_sockets(
    text: str, endpoint: DefaultEndpoint | None
) -> None:
    assert parse_default_endpoint(text) == endpoint


HOSTS = {
    "./*": EgressHost("shop", "*"),
    "*/*.A.b": EgressHost("*", "*.a.b"),
    "other/a.b": EgressHost("other", "a.b"),
    "~/a.b": EgressHost("*", "a.b", is_excluded=True),
    "~/*": EgressHost("*", "*", is_excluded=True),
    "~./*": EgressHost("shop", "*", is_excluded=True),
    "~other/*": EgressHost("other", "*", is_excluded=True),
}


@pytest.mark.parametrize(("text", "host"), HOSTS.items())
def test_hosts_of_a_listener_name_a_namespace(text: str, host: EgressHost) -> None:
    assert parse_egress_host(text, "shop") == host
