"""What is reported when YAML is wrong: file, line, field, and what would be right."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from istio_config import read_content, read_folder, read_object
from istio_config._objects import read_single
from mesh_configfile import read_documents

HEAD = "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: web}\nspec:\n"
WORKLOAD = "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: w}\nspec:\n"
POLICY = "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: p}\nspec:\n"
MESH = "apiVersion: mesh.istio.io/v1alpha1\nkind: MeshConfig\nspec:\n"

MISTAKES = {
    "syntax": ("a: [1\nb: 2\n", "2: not valid YAML: while parsing a flow sequence"),
    "control character": ("a: 1\nb: \0\n", "2: not valid YAML: control characters"),
    "tab": ("a:\n\t- b\n", "2: not valid YAML: "),
    "same field twice": ("kind: A\nkind: B\n", "2: kind: given twice, first on line 1: keep one"),
    "unknown alias": ("a: *nothing\n", "1: a: the alias *nothing names no anchor before it"),
    "tag": ("a: !!python/object:os.system x\n", "1: a: the tag "),
    "not an object": ("- 1\n", "1: expected an object with apiVersion, kind, metadata and spec"),
    "no kind": ("apiVersion: v1\nmetadata: {name: a}\n", "1: the field kind is missing"),
    "unknown kind": (
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntri\nmetadata: {name: a}\n",
        '2: kind: unknown kind "ServiceEntri"; did you mean ServiceEntry?',
    ),
    "other version": (
        HEAD.replace("io/v1", "io/v9") + "  hosts: [a.b]\n",
        "1: apiVersion: a ServiceEntry has networking.istio.io/v1 or",
    ),
    "no version": (
        "kind: ServiceEntry\nmetadata: {name: a}\nspec: {hosts: [a.b]}\n",
        "1: the field apiVersion is missing; for a ServiceEntry it is networking.istio.io/v1",
    ),
    "no metadata": (
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nspec: {hosts: [a.b]}\n",
        "1: the field metadata is missing",
    ),
    "no name": (
        HEAD.replace("name: web", "namespace: x") + "  hosts: [a.b]\n",
        "3: metadata: the field name is missing",
    ),
    "field outside": (HEAD + "  hosts: [a.b]\nspecs: {}\n", "6: specs: unknown field"),
    "misspelt field": (
        HEAD + "  hosts: [a.b]\n  adresses: []\n",
        "6: spec.adresses: unknown field; did you mean addresses?",
    ),
    "snake case": (
        HEAD + "  hosts: [a.b]\n  ports:\n  - number: 1\n    name: x\n    target_port: 2\n",
        "9: spec.ports[0].target_port: unknown field; did you mean targetPort?",
    ),
    "hosts missing": (HEAD + "  ports: []\n", "4: spec: the field hosts is missing"),
    "hosts empty": (HEAD + "  hosts: []\n", "5: spec.hosts: must name at least one host"),
    "host": (
        HEAD + "  hosts:\n  - a.b\n  - not a host\n",
        '7: spec.hosts[1]: "not a host" is not a host name',
    ),
    "wildcard by DNS": (
        HEAD + "  hosts: ['*.a.b']\n  resolution: DNS\n",
        "5: spec.hosts[0]: a wildcard host can't be looked up by resolution DNS",
    ),
    "text for a number": (
        HEAD + "  hosts: [a.b]\n  ports:\n  - number: '80'\n    name: http\n",
        '7: spec.ports[0].number: expected a whole number, found the text "80"',
    ),
    "number for a text": (
        HEAD + "  hosts: [a.b]\n  ports:\n  - number: 80\n    name: 80\n",
        "8: spec.ports[0].name: expected text, found the number 80; put it in quotes",
    ),
    "boolean for a text": (
        HEAD.replace("name: web", "name: yes") + "  hosts: [a.b]\n",
        "3: metadata.name: expected text, found true; put it in quotes",
    ),
    "port out of range": (
        HEAD + "  hosts: [a.b]\n  ports:\n  - {number: 65536, name: http, protocol: HTTP}\n",
        "7: spec.ports[0].number: expected a number from 1 to 65535, found 65536",
    ),
    "port number twice": (
        HEAD + "  hosts: [a.b]\n  ports:\n  - {number: 1, name: a}\n  - {number: 1, name: b}\n",
        "8: spec.ports[1].number: the port 1 is given twice",
    ),
    "port name twice": (
        HEAD + "  hosts: [a.b]\n  ports:\n  - {number: 1, name: a}\n  - {number: 2, name: a}\n",
        '8: spec.ports[1].name: the name "a" is given twice',
    ),
    "protocol": (
        HEAD + "  hosts: [a.b]\n  ports:\n  - {number: 1, name: a, protocol: HTP}\n",
        '7: spec.ports[0].protocol: unknown protocol "HTP"; known: HTTP, ',
    ),
    "list for a mapping": (HEAD + "  - hosts\n", "4: spec: expected a mapping, found a list"),
    "mapping for a list": (
        HEAD + "  hosts: {a: b}\n",
        "5: spec.hosts: expected a list, found a mapping",
    ),
    "enumeration": (
        HEAD + "  hosts: [a.b]\n  resolution: STATICS\n",
        "6: spec.resolution: expected one of NONE, STATIC, DNS, DNS_ROUND_ROBIN, DYNAMIC_DNS",
    ),
    "address": (
        HEAD + "  hosts: [a.b]\n  addresses: [1.2.3]\n",
        '6: spec.addresses[0]: "1.2.3" is not an IP address or a range in CIDR form',
    ),
    "static by name": (
        HEAD + "  hosts: [a.b]\n  resolution: STATIC\n  endpoints:\n  - address: a.b\n",
        '8: spec.endpoints[0].address: resolution STATIC takes IP addresses, found "a.b"',
    ),
    "endpoint's port": (
        HEAD + "  hosts: [a.b]\n  resolution: STATIC\n  "
        "ports: [{number: 1, name: http, protocol: HTTP}]\n"
        + "  endpoints:\n  - address: 1.1.1.1\n    ports: {htp: 1}\n",
        "10: spec.endpoints[0].ports.htp: the service has no port of this name; it has http",
    ),
    "endpoints and selector": (
        HEAD
        + "  hosts: [a.b]\n  resolution: STATIC\n  endpoints: [{address: 1.1.1.1}]\n"
        + "  workloadSelector: {labels: {a: b}}\n",
        "8: spec.workloadSelector: can't stand beside endpoints",
    ),
    "endpoints without resolution": (
        HEAD + "  hosts: [a.b]\n  endpoints: [{address: 1.1.1.1}]\n",
        "6: spec.endpoints: resolution NONE takes no endpoints",
    ),
    "export": (
        HEAD + "  hosts: [a.b]\n  exportTo: [a b]\n",
        '6: spec.exportTo[0]: "a b" is not a namespace',
    ),
    "workload without address": (WORKLOAD + "  labels: {}\n", "4: spec.address: is missing"),
    "workload's address": (
        WORKLOAD + "  address: 'a b'\n",
        '5: spec.address: "a b" is not an IP address, a host name or unix:///path',
    ),
    "socket with ports": (
        WORKLOAD + "  address: unix:///run/x\n  ports: {a: 1}\n",
        "6: spec.ports: a Unix socket has no ports",
    ),
    "port level without selector": (
        POLICY + "  portLevelMtls: {80: {mode: STRICT}}\n",
        "5: spec.portLevelMtls: needs a selector with matchLabels beside it",
    ),
    "port level": (
        POLICY + "  selector: {matchLabels: {a: b}}\n  portLevelMtls: {http: {mode: STRICT}}\n",
        "6: spec.portLevelMtls.http: is not a port; expected a number from 1 to 65535",
    ),
    "mode": (
        POLICY + "  mtls: {mode: strict}\n",
        "5: spec.mtls.mode: expected one of UNSET, DISABLE, PERMISSIVE, STRICT",
    ),
    "duration": (
        MESH + "  connectTimeout: 10\n",
        (
            "4: spec.connectTimeout: expected a duration such as 10s or 250ms, "
            "found the number 10; it needs a unit: h, m, s, ms, us or ns"
        ),
    ),
    "duration of days": (
        MESH + "  connectTimeout: 1d\n",
        (
            "4: spec.connectTimeout: expected a duration such as 10s or 250ms, "
            'found the text "1d"; a day is 24h'
        ),
    ),
    "duration beyond Go's": (
        MESH + "  connectTimeout: 9999999h\n",
        "4: spec.connectTimeout: '9999999h' is longer than 2562047h47m16.854775807s",
    ),
    "agents' duration": (
        MESH + "  defaultConfig:\n    drainDuration: -1s\n",
        "5: spec.defaultConfig.drainDuration: '-1s' is shorter than 0s, the shortest allowed",
    ),
    "agents' duration without a unit": (
        MESH + "  defaultConfig:\n    drainDuration: 0\n",
        "5: spec.defaultConfig.drainDuration: expected a duration such as 10s",
    ),
    "tag of a mapping": ("a: !!python/object:os.system {x: 1}\n", "1: a: the tag "),
    "trust domain": (
        MESH + "  trustDomain: My Mesh\n",
        "4: spec.trustDomain: trust domain 'My Mesh' must be 1 to 255 of a-z 0-9 . _ -",
    ),
    "namespace": (
        HEAD.replace("name: web", "name: web, namespace: a/sa/b") + "  hosts: [a.b]\n",
        "3: metadata.namespace: namespace 'a/sa/b' must be of a-z A-Z 0-9 . _ -",
    ),
    "service account": (
        WORKLOAD + "  address: 1.1.1.1\n  serviceAccount: web/sa/vault\n",
        "6: spec.serviceAccount: service account 'web/sa/vault' must be of a-z A-Z 0-9 . _ -",
    ),
    "endpoint's service account": (
        HEAD
        + "  hosts: [a.b]\n  resolution: STATIC\n"
        + "  endpoints: [{address: 1.1.1.1, serviceAccount: ..}]\n",
        "7: spec.endpoints[0].serviceAccount: service account '..' must be of a-z A-Z 0-9 . _ -",
    ),
    "log format": (
        MESH + "  accessLogEncoding: JSON\n  accessLogFormat: '%A%'\n",
        "5: spec.accessLogFormat: with accessLogEncoding JSON it must be a JSON object",
    ),
    "agents' setting": (
        MESH + "  defaultConfig:\n    discoverAddress: a:1\n",
        "5: spec.defaultConfig.discoverAddress: unknown field; did you mean discoveryAddress?",
    ),
    "discovery address": (
        MESH + "  defaultConfig:\n    discoveryAddress: istiod\n",
        "5: spec.defaultConfig.discoveryAddress: expected host:port",
    ),
}


@pytest.mark.parametrize(("text", "wanted"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_named_with_its_place_and_what_would_be_right(text: str, wanted: str) -> None:
    content = read_content(text.encode(), file="web.yaml")

    (problem,) = content.problems
    assert not content.objects
    assert str(problem).startswith(f"web.yaml:{wanted}")


def test_all_mistakes_of_all_files_are_reported_at_once(config_dir: Path) -> None:
    (config_dir / "a.yaml").write_text(HEAD + "  hosts: [1]\n  port: []\n---\nkind: X\n")
    (config_dir / "below").mkdir()
    (config_dir / "below" / "b.yml").write_text(WORKLOAD + "  weight: -1\n  address: 1.1.1.1\n")

    problems = read_folder(config_dir).problems

    assert [(Path(each.file).name, each.line, each.field) for each in problems] == [
        ("a.yaml", 5, "spec.hosts[0]"),
        ("a.yaml", 6, "spec.port"),
        ("a.yaml", 8, ""),
        ("a.yaml", 8, "kind"),
        ("b.yml", 5, "spec.weight"),
    ]


def test_two_objects_of_one_name_are_reported_with_both_places(config_dir: Path) -> None:
    (config_dir / "a.yaml").write_text(HEAD + "  hosts: [a.b]\n")
    (config_dir / "b.yaml").write_text("# mine\n" + HEAD + "  hosts: [c.d]\n")

    (problem,) = read_folder(config_dir).problems

    assert str(problem) == (
        f"{config_dir}/b.yaml:2: a second ServiceEntry default/web, the first is at "
        f"{config_dir}/a.yaml:1; rename or remove one"
    )


def test_files_that_cannot_be_read_are_problems(config_dir: Path, tmp_path: Path) -> None:
    (config_dir / "latin.yaml").write_bytes("a: 1\nb: ü\n".encode("latin-1"))
    (config_dir / "gone.yaml").symlink_to(tmp_path / "nowhere")

    problems = read_folder(config_dir).problems

    assert [(Path(each.file).name, each.line) for each in problems] == [
        ("gone.yaml", 1),
        ("latin.yaml", 2),
    ]


@pytest.mark.parametrize("kind", ["missing", "file"])
def test_a_config_directory_that_is_none_is_a_problem(kind: str, tmp_path: Path) -> None:
    directory = tmp_path / "conf"
    if kind == "file":
        directory.touch()

    (problem,) = read_folder(directory).problems

    assert str(problem).startswith(f"{directory}:1: the config directory ")


def _fields(values: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
    return st.dictionaries(st.text(max_size=8), values, max_size=3)


_yaml = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | _fields(inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["hosts", "ports", "endpoints", "resolution", "x"]), _yaml))
def test_any_data_is_read_or_refused_in_words(spec: dict[str, object]) -> None:
    document = {
        "apiVersion": "networking.istio.io/v1",
        "kind": "ServiceEntry",
        "metadata": {"name": "a"},
        "spec": spec,
    }
    text = json.dumps(document)

    documents, problems = read_documents(text, file="x")

    for each in documents:
        read = read_object(each)
        assert (read.item is None) == bool(read.problems)
    assert documents or problems


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    documents, problems = read_documents(text, file="x")

    for each in documents:
        for read in (read_object(each), read_single(each)):
            assert (read.item is None) == bool(read.problems)
    assert all(problem.line >= 1 for problem in problems)
