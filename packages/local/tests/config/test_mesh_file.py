import os
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mesh_local import MeshFile, MeshFileError, load_mesh_file, parse_mesh_file
from mesh_local.config._service_names import instance_names, service_names

Parse = Callable[[str], MeshFile]
ONE = "workloads:\n  - name: a\n"


def test_a_file_needs_no_more_than_a_workload_s_name(parse: Parse) -> None:
    file = parse(ONE)
    assert file.mesh.trust_domain == "cluster.local"
    assert file.mesh.mtls == "STRICT"
    assert file.certificate_lifetime == timedelta(hours=1)
    assert file.workloads[0].namespace == "default"
    assert file.name == file.directory.name


def test_the_whole_file_is_read(shop: MeshFile) -> None:
    assert [each.name for each in shop.workloads] == ["backend", "frontend", "visitor"]
    assert shop.workloads[0].ports[1].protocol == "tcp"
    assert shop.checks[1].request.path == "/a?b=c"
    assert instance_names(shop.workloads[0]) == ("backend-1", "backend-2")
    assert "backend.shop" in service_names(shop.workloads[0])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "1: expected a mapping with at least the field workloads"),
        ("- a\n", "1: expected a mapping with at least the field workloads"),
        ("mesh: {}\n", "1: the field workloads is missing"),
        ("workloads: []\n", "1: workloads: must name at least one workload"),
        (
            "workloads:\n  - name: a\n    prots: []\n",
            "3: workloads[0].prots: unknown field; did you mean ports?",
        ),
        (
            "workloads:\n  - name: a\n    ports:\n      - prt: 1\n        port: 1\n",
            "4: workloads[0].ports[0].prt: unknown field; did you mean port?",
        ),
        (
            f"mesh:\n  zzz: 1\n{ONE}",
            (
                "2: mesh.zzz: unknown field; known here: certificateLifetime, dnsPort, "
                "drain, httpProxyPort, mtls, name, trustDomain"
            ),
        ),
        (
            "workloads:\n  - name: a\n    ports:\n      - port: http\n",
            '4: workloads[0].ports[0].port: expected a whole number, found the text "http"',
        ),
        (
            f"mesh:\n  mtls: strict\n{ONE}",
            '2: mesh.mtls: expected one of STRICT, PERMISSIVE, DISABLE, found the text "strict"',
        ),
        (
            f"mesh:\n  certificateLifetime: soon\n{ONE}",
            '2: mesh.certificateLifetime: expected a duration such as 90s or 1h30m, found "soon"',
        ),
        (
            f"mesh:\n  drain: 1d\n{ONE}",
            '2: mesh.drain: expected a duration such as 90s or 1h30m, found "1d"; a day is 24h',
        ),
        (
            f"mesh:\n  drain: {'9' * 30}h\n{ONE}",
            f"2: mesh.drain: must be from 0s to 8760h, found {'9' * 30}h",
        ),
        (
            f"{ONE}mesh: {{drain: -1s}}\n",
            "3: mesh.drain: must be from 0s to 8760h, found -1s",
        ),
        (f"{ONE}---\n{ONE}", "4: only one document can stand here; remove the --- before it"),
        (f"{ONE}name: a\nname: b\n", "4: name: given twice, first on line 3: keep one"),
        (
            f"{ONE}config: [!!python/object:os.system {{x: 1}}]\n",
            "3: config[0]: the tag tag:yaml.org,2002:python/object:os.system has no meaning here",
        ),
        (
            f"mesh:\n  certificateLifetime: 1s\n{ONE}",
            "2: mesh.certificateLifetime: must be from 5s to 8760h, found 1s",
        ),
        (
            f"mesh:\n  trustDomain: A B\n{ONE}",
            "2: mesh.trustDomain: trust domain 'A B' must be 1 to 255 of a-z 0-9 . _ -",
        ),
        (
            "workloads:\n  - name: a\n    ports:\n      - port: 15020\n",
            "4: workloads[0].ports[0].port: 15020 is the port of the agent's status",
        ),
        (
            "workloads:\n  - name: a\n    ports: [{port: 15002}]\n",
            (
                "3: workloads[0].ports[0].port: 15002 is the mesh's httpProxyPort; "
                "change one of the two"
            ),
        ),
        (
            "workloads:\n  - name: a\n    ports: [{port: 15053}]\n",
            "3: workloads[0].ports[0].port: 15053 is the mesh's dnsPort; change one of the two",
        ),
        (
            f"mesh:\n  dnsPort: 15000\n{ONE}",
            "2: mesh.dnsPort: 15000 is the port of Envoy's admin",
        ),
        (
            "workloads:\n  - name: a\n    ports: [{port: 80}, {port: 80, name: b}]\n",
            "3: workloads[0].ports[1].port: the port 80 is given twice",
        ),
        (
            "workloads:\n  - name: a\n  - name: a\n",
            '3: workloads[1].name: a second workload has the name "a"',
        ),
        (
            "workloads:\n  - {name: a, replicas: 2}\n  - name: a-2\n",
            '3: workloads[1].name: a second workload has the name "a-2"',
        ),
        (
            "workloads:\n  - name: A_b\n    serviceAccount: a\n",
            '2: workloads[0].name: "A_b" is not a name; use lower-case letters, digits and "-"',
        ),
        (
            "workloads:\n  - name: user\n",
            '2: workloads[0].name: "user" has a meaning of its own here; rename it',
        ),
        (
            (
                "workloads:\n  - name: a\n    replicas: 100\n  - name: b\n    replicas: 100\n"
                "  - name: c\n    replicas: 100\n"
            ),
            "1: workloads: 300 replicas in all, 250 at most",
        ),
        (
            f"{ONE}config:\n  - kind: PeerAuthentication\n    metadata: {{name: x}}\n",
            "4: config[0]: the field apiVersion is missing, as in Istio's YAML",
        ),
        (
            (
                f"{ONE}checks:\n  - name: c\n    from: b\n    request: GET http://a:80/\n"
                "    expect: {status: 200}\n"
            ),
            '5: checks[0].from: there is no workload "b" (or write user or outsider)',
        ),
        (
            (
                f"{ONE}checks:\n  - name: c\n    from: a\n    request: a:80\n"
                "    expect: {status: 200}\n"
            ),
            '6: checks[0].request: expected "GET http://host:port/path", found "a:80"',
        ),
        (
            (
                f"{ONE}checks:\n  - name: c\n    from: a\n    request: GET https://a/\n"
                "    expect: {status: 200}\n"
            ),
            (
                '6: checks[0].request: "https://a/" must begin with http:// and a host; '
                "Envoy makes it mutual TLS"
            ),
        ),
        (
            (
                f"{ONE}checks:\n  - name: c\n    from: user\n    request: GET http://a:80/\n"
                "    expect: {status: 200}\n"
            ),
            "6: checks[0].request: no workload serves a:80 in this file",
        ),
        (
            (
                f"{ONE}checks:\n  - name: c\n    from: a\n    request: GET http://a:80/\n"
                "    expect: {}\n"
            ),
            "7: checks[0].expect: give status, text, caller or refused",
        ),
        (
            (
                f"{ONE}checks:\n  - name: c\n    from: a\n    request: GET http://a:80/\n"
                "    expect: {refused: true, status: 200}\n"
            ),
            "7: checks[0].expect: a refused request has no answer: keep refused or the rest",
        ),
        (
            (
                f"mesh:\n  httpProxyPort: 0\n{ONE}checks:\n  - name: c\n    from: a\n"
                "    request: GET http://a:80/\n    expect: {status: 200}\n"
            ),
            (
                "7: checks[0].from: a check that goes through a workload's Envoy needs "
                "mesh.httpProxyPort"
            ),
        ),
        (
            "workloads:\n- name: a\n  proxyless: true\n  ports:\n  - {port: 80}\n",
            "5: workloads[0].ports[0].protocol: a proxyless workload serves grpc only, not http",
        ),
        (
            (
                "workloads:\n- {name: a, proxyless: true}\nchecks:\n  - name: c\n    from: a\n"
                "    request: GET http://b:80/\n    expect: {status: 200}\n"
            ),
            '5: checks[0].from: the workload "a" is proxyless: it has no Envoy to send through',
        ),
        (
            (
                "workloads:\n- {name: a, proxyless: true, ports: [{port: 80, protocol: grpc}]}\n"
                "checks:\n  - name: c\n    from: user\n    request: GET http://a:80/\n"
                "    expect: {status: 200}\n"
            ),
            '6: checks[0].request: the workload "a" is proxyless: it answers gRPC, not HTTP',
        ),
        (
            "workloads:\n  - name: a\n    env: {A=B: x}\n",
            "3: workloads[0].env.A=B: is not the name of an environment variable",
        ),
        (
            (
                "workloads:\n- {name: a, service: s, ports: [{port: 1}]}\n"
                "- name: b\n  service: s\n  ports: [{port: 2}]\n"
            ),
            (
                "5: workloads[1].ports: a is of the service s, too, and has other ports: "
                "all workloads of a service have the same"
            ),
        ),
        (
            "workloads:\n- name: a\n  service: A\n",
            '3: workloads[0].service: "A" is not a name; use lower-case letters, digits and "-"',
        ),
        (
            "workloads:\n- name: a\n  locality: a/b/c/d\n",
            '3: workloads[0].locality: "a/b/c/d" is not region, region/zone or region/zone/subzone',
        ),
        (
            "workloads:\n- name: g\n  gateway: {ports: [8080]}\n  ports: [{port: 1}]\n",
            "4: workloads[0].ports: a gateway has no program: leave it out",
        ),
        (
            "workloads:\n- name: g\n  gateway: {ports: [1, 1]}\n",
            "3: workloads[0].gateway.ports[1]: the port 1 is given twice",
        ),
        (
            "workloads:\n- name: g\n  gateway:\n    ports: [80]\n    address: here\n",
            '5: workloads[0].gateway.address: "here" is not an IP address',
        ),
        (
            (
                "workloads:\n- {name: g, gateway: {ports: [8080]}}\nchecks:\n- name: c\n"
                "  from: user\n  via: h\n  request: GET http://a:8080/\n  expect: {status: 200}\n"
            ),
            '6: checks[0].via: there is no gateway "h" in this file',
        ),
        (
            (
                "workloads:\n- {name: g, gateway: {ports: [8080]}}\nchecks:\n- name: c\n"
                "  from: user\n  via: g\n  request: GET http://a/\n  expect: {status: 200}\n"
            ),
            "7: checks[0].request: the gateway g has no port 80: 8080",
        ),
        ("a: [\n", "2: not valid YAML"),
        (
            "workloads:\n- name: a\n  ports:\n  - {port: 1, protocol: HTTP}\n",
            (
                "4: workloads[0].ports[0].protocol: expected one of http, http2, grpc, tcp, tls, "
                'https, found the text "HTTP"'
            ),
        ),
    ],
)
def test_a_mistake_is_one_sentence_with_its_place(
    parse: Parse, tmp_path: Path, text: str, sentence: str
) -> None:
    with pytest.raises(MeshFileError) as caught:
        parse(text)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'mesh.yaml'}:{sentence}")
    assert "\n" not in message


def test_all_mistakes_between_fields_are_named_at_once(parse: Parse) -> None:
    with pytest.raises(MeshFileError) as caught:
        parse("mesh:\n  trustDomain: '!'\n  drain: x\nworkloads:\n  - name: '!'\n")
    assert [problem.field for problem in caught.value.problems] == [
        "mesh.trustDomain",
        "mesh.drain",
        "workloads[0].name",
        "workloads[0].serviceAccount",
    ]


def test_all_mistakes_of_shape_are_named_at_once(parse: Parse) -> None:
    with pytest.raises(MeshFileError) as caught:
        parse("mesh:\n  drain: 5\n  dnsprt: 1\nworkloads:\n  - name: 1\n  - ports: {}\n")
    assert [(problem.line, problem.field) for problem in caught.value.problems] == [
        (2, "mesh.drain"),
        (3, "mesh.dnsprt"),
        (5, "workloads[0].name"),
        (6, "workloads[1]"),
        (6, "workloads[1].ports"),
    ]


def test_what_repeats_may_be_written_once(parse: Parse) -> None:
    file = parse("workloads:\n  - &one {name: a, env: {A: b}}\n  - {<<: *one, name: b}\n")
    assert [(each.name, each.env) for each in file.workloads] == [
        ("a", {"A": "b"}),
        ("b", {"A": "b"}),
    ]


def test_a_directory_that_is_not_there_is_named(parse: Parse, tmp_path: Path) -> None:
    with pytest.raises(MeshFileError, match=f"there is no directory {tmp_path}/x"):
        parse(f"{ONE}configDir: x\n")
    with pytest.raises(MeshFileError, match=r"workloads\[0\].directory: there is no directory"):
        parse("workloads:\n  - {name: a, directory: x}\n")


@pytest.mark.parametrize("what", ["missing", "directory", "binary"])
def test_an_unreadable_file_is_named(tmp_path: Path, what: str) -> None:
    path = tmp_path / "mesh.yaml"
    if what == "directory":
        path.mkdir()
    elif what == "binary":
        path.write_bytes(b"\xff\xfe\xff")
    with pytest.raises(MeshFileError, match=r"mesh.yaml:1: (can't be read|this is a|not UTF-8)"):
        load_mesh_file(path)


@given(
    st.dictionaries(
        st.sampled_from(["mesh", "workloads", "config", "configDir", "checks", "x"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["name", "ports", "port", "env", "from", "expect", "status"]),
                    inner,
                    max_size=3,
                )
            ),
            max_leaves=8,
        ),
    )
)
def test_any_document_is_read_or_refused(document: object) -> None:
    with suppress(MeshFileError):
        parse_mesh_file(yaml.safe_dump(document), path=Path("mesh.yaml"))


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ("env: {A B: x}", "workloads[0].env.A B: is not the name of an environment variable"),
        ("agentEnv: {1: x}", "workloads[0].agentEnv"),
        ('agentEnv: {A: "x\\0"}', "workloads[0].agentEnv.A: holds a NUL, which no variable can"),
        (
            "agentEnv: {POD_NAME: x}",
            "workloads[0].agentEnv.POD_NAME: is given to the agent already",
        ),
    ],
)
def test_variables_that_can_t_be_given_are_reported(
    parse: Parse, variables: str, sentence: str
) -> None:
    with pytest.raises(MeshFileError) as caught:
        parse(f"{ONE}    {variables}\n")
    assert sentence in str(caught.value)


def test_a_fifo_is_no_mesh_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "mesh.yaml")
    with pytest.raises(MeshFileError, match="it is a FIFO, a regular file is needed"):
        load_mesh_file(tmp_path / "mesh.yaml")


@pytest.mark.parametrize("target", ["odd", "plain/below", "x" * 300, "/dev/zero"])
def test_an_odd_link_in_place_of_a_directory_is_named(
    parse: Parse, tmp_path: Path, target: str
) -> None:
    (tmp_path / "plain").touch()
    (tmp_path / "odd").symlink_to(target)
    with pytest.raises(MeshFileError, match=f"there is no directory {tmp_path}/odd"):
        parse(f"{ONE}configDir: odd\n")
