"""Runs Istio's istioctl against a mesh of this tree, and writes docs/istioctl.md of what it says.

`python tools/istioctl_page.py` prints the page, with `--write` it is written. It needs istioctl on
PATH, or its file in ISTIOCTL; the page says how it is built.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from workspace import ROOT

PAGE = ROOT / "docs" / "istioctl.md"
_EXAMPLE = ROOT / "examples" / "two-services"
_SHOWN_LINES = 16
_START_S = 120.0
_FIRST_BLOCK = "127.64"
"""Where the mesh's addresses begin, unless another mesh runs on this machine."""
_BIN = Path(sys.executable).parent

_KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: "http://127.0.0.1:9"}}]
contexts: [{name: none, context: {cluster: none, user: none}}]
users: [{name: none, user: {}}]
current-context: none
"""


class Shown(NamedTuple):
    """A command of istioctl, which namespace's certificate it shows, and words that it prints.

    namespace: empty if the command asks no control plane. succeeds: its exit status is 0.
    """

    words: str
    said: tuple[str, ...]
    namespace: str = "istio-system"
    succeeds: bool = True


FROM_CONTROL_PLANE = (
    Shown("proxy-status", ("backend.shop", "frontend.shop", "(CDS,LDS,EDS,RDS,PCDS,NDS)")),
    Shown("proxy-status -v 1", ("SYNCED", "IGNORED")),
    Shown("proxy-status frontend.shop --file envoy.json", ("Listeners Match", "Routes Match")),
    Shown("x internal-debug --list", ('"config_dump"', '"syncz"')),
    Shown("x internal-debug syncz", ('"proxy": "backend.shop"', '"cluster_acked"')),
    Shown(
        "x internal-debug config_dump?proxyID=backend.shop",
        ("envoy.admin.v3.BootstrapConfigDump", "backend.shop"),
    ),
    Shown("x internal-debug edsz?proxyID=frontend.shop", ("ClusterLoadAssignment", ".1.1")),
    Shown("x internal-debug ndsz?proxyID=frontend.shop", ("NameTable", "backend.shop")),
    Shown("x internal-debug connections", ('"totalClients": 2',)),
)
AS_A_WORKLOAD = (
    Shown("proxy-status -i shop", ("backend.shop", "frontend.shop"), namespace="shop"),
    Shown(
        "x internal-debug config_dump?proxyID=backend.shop -i shop",
        ("envoy.admin.v3.ClustersConfigDump",),
        namespace="shop",
    ),
    Shown(
        "x internal-debug syncz -i shop",
        ("PermissionDenied", "is for workloads of istio-system"),
        namespace="shop",
        succeeds=False,
    ),
    Shown("proxy-status -i other", (), namespace="other"),
)
OF_AN_ENVOY = (
    Shown("proxy-config cluster -f envoy.json", ("backend.shop.svc.cluster.local",), ""),
    Shown("proxy-config listener -f envoy.json", ("Route: 9080", "Cluster: inbound|9080||"), ""),
    Shown("proxy-config route -f envoy.json", ("backend.shop.svc.cluster.local:9080",), ""),
    Shown("proxy-config endpoint -f clusters.json", ("outbound|9080||backend.shop",), ""),
    Shown("proxy-config eds -f envoy.json", (".1.1:9080", "HEALTHY"), ""),
    Shown("proxy-config secret -f envoy.json", ("default", "ROOTCA", "ACTIVE"), ""),
    Shown("proxy-config bootstrap -f envoy.json", ("frontend.shop",), ""),
    Shown("proxy-config all -f envoy.json", ("Istio Version", "Envoy Version"), ""),
)
OF_THE_PAGE = (
    Shown("proxy-config cluster -f plane.json", ("backend.shop.svc.cluster.local",), ""),
    Shown("proxy-config listener -f plane.json", ("Route: 9080", "Cluster: inbound|9080||"), ""),
    Shown("proxy-config route -f plane.json", ("backend.shop.svc.cluster.local:9080",), ""),
    Shown("proxy-config eds -f plane.json", (".1.1:9080",), ""),
    Shown("proxy-config bootstrap -f plane.json", ("frontend.shop",), ""),
)
WITHOUT_KUBERNETES = (
    Shown("x describe pod frontend -n shop", ("connection refused",), "", succeeds=False),
)

_SECTIONS = (
    (
        "The status of all proxies, and pages of the control plane",
        """Asked with a certificate of `istio-system/default`, the account that istioctl
names. The command line of each is followed by `--xds-address 127.64.0.1:15012
--cert-dir certs-istio-system --authority istiod.istio-system.svc --revision default`.
`--revision` keeps istioctl from asking Kubernetes for it.""",
        FROM_CONTROL_PLANE,
    ),
    (
        "What other workloads are told",
        """With a certificate of another namespace (`-i` has istioctl name it): the
status, config dump, endpoints and names of its own proxies, and nothing else
([claims](threat-model.md)). A caller in plaintext (`--plaintext`) is refused: it has
proven nothing.""",
        AS_A_WORKLOAD,
    ),
    (
        "The configuration of an Envoy",
        """`envoy.json` is `/config_dump?include_eds` of the frontend's Envoy,
`clusters.json` its `/clusters?format=json`; an agent has the first at
`:15020/debug/config_dump?include_eds`, too.""",
        OF_AN_ENVOY,
    ),
    (
        "What the control plane would give it",
        """`plane.json` is `:15014/debug/config_dump?proxyID=frontend.shop&include_eds`
of the control plane.""",
        OF_THE_PAGE,
    ),
    (
        "What needs a Kubernetes API",
        """`x describe`, `analyze` without files, and all that names a pod in the place
of a file look the pod up in Kubernetes and reach its Envoy through a kubelet
(port-forward). An API server alone would not do, and this control plane is none.""",
        WITHOUT_KUBERNETES,
    ),
)
_INTRODUCTION = """\
# istioctl

Istio's `istioctl`, as Istio builds it, against a mesh of two workloads of this tree
(`examples/two-services`), without Kubernetes. The page is written by
`tools/istioctl_page.py --write`, which starts the mesh and runs each command. Long output is cut.

```sh not-run
git clone https://github.com/istio/istio
cd istio && go build ./istioctl/cmd/istioctl       # the Go module istio.io/istio has the same
```

istioctl wants a kubeconfig, if only one that leads nowhere, and a certificate. It names itself the
service account `default` of Istio's namespace, so it shows a certificate of that account, which
`certclient` gets for a token:

```sh not-run
mesh-discovery token --dir tokens --namespace istio-system --output token
certclient get --ca 127.64.0.1:15012 --ca-root ca/root-cert.pem --token token \\
    --spiffe-id spiffe://cluster.local/ns/istio-system/sa/default --output certs-istio-system
```
"""


class Output(NamedTuple):
    """What a command printed, stdout before stderr, and its exit status."""

    status: int
    text: str


class Lab(NamedTuple):
    """A running mesh with a directory where istioctl runs."""

    istioctl: str
    directory: Path
    block: str

    def run(self, shown: Shown) -> Output:
        """Run a command of istioctl."""
        words = [self.istioctl, *shlex.split(shown.words)]
        if shown.namespace:
            words += [
                *("--xds-address", f"{self.block}.0.1:15012"),
                *("--cert-dir", f"certs-{shown.namespace}"),
                *("--authority", "istiod.istio-system.svc", "--revision", "default"),
            ]
        done = subprocess.run(
            words,
            cwd=self.directory,
            env={**os.environ, "KUBECONFIG": str(self.directory / "kubeconfig")},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        said = done.stdout + done.stderr
        return Output(done.returncode, said.replace(f"{self.block}.", f"{_FIRST_BLOCK}."))


def find_istioctl() -> str | None:
    """Return where istioctl is; None if it is not on this machine."""
    return os.environ.get("ISTIOCTL") or shutil.which("istioctl")


@contextmanager
def lab(istioctl: str) -> Iterator[Lab]:
    """Run the example's mesh while the block runs, with certificates and dumps to be used."""
    with tempfile.TemporaryDirectory(prefix="istioctl-") as folder:
        directory = Path(folder)
        for each in _EXAMPLE.iterdir():
            shutil.copy(each, directory)
        state = directory / "state"
        (directory / "kubeconfig").write_text(_KUBECONFIG)
        with subprocess.Popen(
            [_BIN / "mesh-local", "up", "mesh.yaml", "--state-dir", state],
            cwd=directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as mesh:
            try:
                block = _wait_ready(mesh)
                _command("mesh-local", "wait", "--state-dir", str(state), cwd=directory)
                for namespace in ("istio-system", "shop", "other"):
                    _get_certificate(directory, state, namespace, f"{block}.0.1:15012")
                for name, host, port, path in (
                    ("envoy.json", f"{block}.2.1", 15000, "/config_dump?include_eds"),
                    ("clusters.json", f"{block}.2.1", 15000, "/clusters?format=json"),
                    (
                        "plane.json",
                        f"{block}.0.1",
                        15014,
                        "/debug/config_dump?proxyID=frontend.shop&include_eds",
                    ),
                ):
                    (directory / name).write_bytes(_fetch(host, port, path))
                yield Lab(istioctl, directory, block)
            finally:
                mesh.terminate()


def _wait_ready(mesh: subprocess.Popen[str]) -> str:
    """Return where the addresses of the mesh begin, once its workloads are ready."""
    said = []
    for line in mesh.stdout or ():
        said.append(line)
        if found := re.search(r"control plane (\d+\.\d+)\.0\.1:\d+ running", line):
            return found[1]
    raise RuntimeError(f"the mesh does not start: {''.join(said)}")


def _get_certificate(directory: Path, state: Path, namespace: str, authority: str) -> None:
    token = f"token-{namespace}"
    _command(
        *("mesh-discovery", "token", "--dir", str(state / "tokens"), "--namespace", namespace),
        *("--service-account", "default", "--issuer", "mesh-local", "--output", token),
        cwd=directory,
    )
    _command(
        *("certclient", "get", "--ca", authority, "--token", token),
        *("--ca-root", str(state / "ca/root-cert.pem"), "--lifetime", "1h"),
        *("--spiffe-id", f"spiffe://cluster.local/ns/{namespace}/sa/default"),
        *("--output", f"certs-{namespace}"),
        cwd=directory,
    )


def _command(name: str, *arguments: str, cwd: Path) -> None:
    done = subprocess.run(
        [_BIN / name, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=_START_S,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{name} {' '.join(arguments)}: {done.stdout}{done.stderr}")


def _fetch(host: str, port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection(host, port, timeout=10)
    try:
        connection.request("GET", path)
        body = connection.getresponse().read()
    finally:
        connection.close()
    json.loads(body)
    return body


def mistakes(shown: Shown, output: Output) -> list[str]:
    """Return what is not as expected of a command's output."""
    found = [f"no {each!r}" for each in shown.said if each not in output.text]
    if shown.succeeds != (output.status == 0):
        found.append(f"exit status {output.status}")
    return found


def page(running: Lab) -> str:
    """Return the page; raises `RuntimeError` for output that is not as expected."""
    lines = [_INTRODUCTION]
    for title, text, commands in _SECTIONS:
        lines += [f"## {title}", "", text, ""]
        for shown in commands:
            output = running.run(shown)
            if wrong := mistakes(shown, output):
                raise RuntimeError(f"istioctl {shown.words}: {', '.join(wrong)}:\n{output.text}")
            lines += ["```", f"$ istioctl {shown.words}", *_cut(output.text), "```", ""]
    return "\n".join(lines)


def _cut(text: str) -> Iterator[str]:
    lines = [line.rstrip()[:150] for line in text.replace("\t", "    ").strip().splitlines()]
    yield from lines[:_SHOWN_LINES]
    if len(lines) > _SHOWN_LINES:
        yield f"... ({len(lines) - _SHOWN_LINES} more lines)"


def main(arguments: Sequence[str]) -> int:
    """Write or print the page."""
    istioctl = find_istioctl()
    if istioctl is None:
        sys.stderr.write("istioctl is not on PATH, and ISTIOCTL does not name it\n")
        return 1
    with lab(istioctl) as running:
        text = page(running)
    if "--write" in arguments:
        PAGE.write_text(text)
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
