"""A mesh of a number of services as Istio's files, and edits of it; part of `bench_edits`."""

from __future__ import annotations

from pathlib import Path

NAMESPACE = "default"


def service(number: int, *, addresses: tuple[str, ...], workloads: bool = False) -> str:
    """A ServiceEntry with an HTTP port."""
    lines = [
        "apiVersion: networking.istio.io/v1",
        "kind: ServiceEntry",
        f"metadata: {{name: service-{number}, namespace: {NAMESPACE}}}",
        "spec:",
        f"  hosts: [service-{number}.{NAMESPACE}.svc.cluster.local]",
        "  location: MESH_INTERNAL",
        "  resolution: STATIC",
        "  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}]",
    ]
    if workloads:
        lines += ["  workloadSelector: {labels: {app: selected}}"]
    else:
        lines += ["  endpoints:"]
        lines += [f"  - {{address: {each}, serviceAccount: load}}" for each in addresses]
    return "\n".join(lines) + "\n"


def workload(address: str) -> str:
    return (
        "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\n"
        f"metadata: {{name: workload, namespace: {NAMESPACE}}}\n"
        f"spec: {{address: {address}, serviceAccount: load, labels: {{app: selected}}}}\n"
    )


def policy(mode: str) -> str:
    return (
        "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\n"
        f"metadata: {{name: default, namespace: {NAMESPACE}}}\nspec: {{mtls: {{mode: {mode}}}}}\n"
    )


def virtual_service(number: int, mark: str) -> str:
    """Routes of a service by path, the second with a header that bears the mark."""
    host = f"service-{number}.{NAMESPACE}.svc.cluster.local"
    return (
        "apiVersion: networking.istio.io/v1\nkind: VirtualService\n"
        f"metadata: {{name: service-{number}, namespace: {NAMESPACE}}}\n"
        f"spec:\n  hosts: [{host}]\n  http:\n"
        f"  - match: [{{uri: {{prefix: /api}}}}]\n    timeout: 5s\n"
        f"    route: [{{destination: {{host: {host}, subset: v1}}}}]\n"
        f"  - headers: {{response: {{set: {{x-mark: {mark}}}}}}}\n"
        f"    route: [{{destination: {{host: {host}}}}}]\n"
    )


def destination_rule(number: int, subset: str) -> str:
    """Pools of a service, with a subset beside v1."""
    return (
        "apiVersion: networking.istio.io/v1\nkind: DestinationRule\n"
        f"metadata: {{name: service-{number}, namespace: {NAMESPACE}}}\n"
        f"spec:\n  host: service-{number}.{NAMESPACE}.svc.cluster.local\n"
        "  trafficPolicy: {connectionPool: {http: {http2MaxRequests: 1000}}}\n"
        "  subsets:\n  - {name: v1, labels: {version: v1}}\n"
        f"  - {{name: {subset}, labels: {{version: v2}}}}\n"
    )


def mesh(connect_timeout_s: int) -> str:
    return f"trustDomain: cluster.local\nconnectTimeout: {connect_timeout_s}s\n"


class Files:
    """A mesh of a number of services, in one file or in one for each, and its edits."""

    def __init__(self, directory: Path, number: int, *, one: bool, rules: int = 0) -> None:
        """rules: so many services have a VirtualService and a DestinationRule."""
        self.directory = directory / "mesh"
        self.mesh = directory / "mesh-config.yaml"
        self.directory.mkdir()
        self._one = one
        self._number = number
        self._count = 0
        self._documents = {
            f"service-{n}": service(n, addresses=(self._address(n, 1), self._address(n, 2)))
            for n in range(number)
        }
        for n in range(rules):
            self._documents[f"route-{n}"] = virtual_service(n, "none")
            self._documents[f"rule-{n}"] = destination_rule(n, "v2")
        self._documents["selecting"] = service(number, addresses=(), workloads=True)
        self._documents["workload"] = workload("10.91.0.1")
        self._documents["policy"] = policy("PERMISSIVE")
        self._write(self.mesh, mesh(10))
        for name in self._documents:
            if not one:
                self._write_document(name)
        if one:
            self._write_document("")

    def edit(self, kind: str) -> tuple[str, str]:
        """Make an edit; return a text that responses have then, and the type that has it."""
        self._count += 1
        count = self._count
        changed, wanted = self._edited(kind, count)
        for name, text in changed.items():
            if text:
                self._documents[name] = text
            else:
                del self._documents[name]
        if kind == "mesh":
            self._write(self.mesh, mesh(10 + count % 50))
        for name in list(changed)[: 1 if self._one else None]:
            self._write_document(name)
        return wanted

    def wanted(self, kind: str) -> tuple[str, str]:
        """Return what the next edit of this kind will be seen by."""
        return self._edited(kind, self._count + 1)[1]

    def _edited(  # noqa: PLR0911 - one case for each kind of edit
        self, kind: str, count: int
    ) -> tuple[dict[str, str], tuple[str, str]]:
        fresh = f"10.92.{count // 250}.{count % 250 + 1}"
        middle = self._number // 2
        any_host = f"service-{middle}.{NAMESPACE}"
        match kind:
            case "endpoint":
                text = service(middle, addresses=(self._address(middle, 1), fresh))
                return {f"service-{middle}": text}, (fresh, "EDS")
            case "route":
                return {"route-0": virtual_service(0, f"mark-{count}")}, (f"mark-{count}", "RDS")
            case "rule":
                subset = f"subset-{count}"
                return {"rule-0": destination_rule(0, subset)}, (f"|{subset}|", "CDS")
            case "add":
                new = self._number + 100 + count
                text = service(new, addresses=(fresh,))
                return {f"service-{new}": text}, (f"service-{new}.{NAMESPACE}", "CDS")
            case "remove":
                last = list(self._documents)[-1]
                # Its routes go first: clusters stay until no listener that drains needs them.
                return {last: ""}, (any_host, "RDS")
            case "policy":
                mode = "DISABLE" if "PERMISSIVE" in self._documents["policy"] else "PERMISSIVE"
                return {"policy": policy(mode)}, (self._address(middle, 1), "EDS")
            case "workload":
                return {"workload": workload(fresh)}, (fresh, "EDS")
            case "mesh":
                return {}, (any_host, "CDS")
            case _:
                raise ValueError(kind)

    def _write_document(self, name: str) -> None:
        if self._one:
            self._write(self.directory / "all.yaml", "---\n".join(self._documents.values()))
        elif name in self._documents:
            self._write(self.directory / f"{name}.yaml", self._documents[name])
        else:
            (self.directory / f"{name}.yaml").unlink()

    def _write(self, path: Path, text: str) -> None:
        draft = path.parent.parent / f".{path.name}.new"
        draft.write_text(text)
        draft.rename(path)

    @staticmethod
    def _address(number: int, part: int) -> str:
        return f"10.{100 + part}.{number // 250}.{number % 250 + 1}"
