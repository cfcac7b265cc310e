"""TrafficExtensions and WasmPlugins of every level, phase, side and port."""

from hypothesis import strategies as st

from drawn_meshes._draws import PORT_NUMBERS, Json, document, fields, some_labels

_GROUP = "extensions.istio.io/v1alpha1"
_SCRIPT = "function envoy_on_request(handle) handle:headers():add('x-seen', '{}') end"
_modes = st.sampled_from(("CLIENT", "SERVER", "CLIENT_AND_SERVER", "UNDEFINED"))
_ports = st.lists(
    st.sampled_from(PORT_NUMBERS).map(lambda number: {"number": number}), max_size=2, unique_by=str
)
_common = {
    "priority": st.integers(-2, 2),
    "match": st.lists(fields(mode=_modes, ports=_ports), max_size=2),
}
_phases = st.sampled_from(("AUTHN", "AUTHZ", "STATS"))
_module = {
    "type": st.sampled_from(("HTTP", "NETWORK")),
    "failStrategy": st.sampled_from(("FAIL_OPEN", "FAIL_CLOSE", "FAIL_RELOAD")),
    "imagePullPolicy": st.sampled_from(("Always", "IfNotPresent")),
    "pluginConfig": st.just({"a": [1, True, "b"]}),
    "pluginName": st.just("root"),
}
_urls = st.sampled_from(("registry.example/m:v1", "https://m.example/m.wasm"))
_plugins = fields({"url": _urls}, phase=_phases, **_common, **_module)
_of_modules = fields(
    {"wasm": fields({"url": _urls}, **_module)},
    phase=_phases,
    **_common,
)


@st.composite
def extensions(draw: st.DrawFn) -> list[Json]:
    """Draw extensions of the mesh, of namespaces and of workloads."""
    documents = []
    for index, namespace in enumerate(("istio-system", "a", "b", "b")):
        kind = draw(st.sampled_from(("", "", "script", "module", "plugin")))
        if not kind:
            continue
        if kind == "plugin":
            spec: Json = draw(_plugins)
        elif kind == "module":
            spec = draw(_of_modules)
        else:
            script = {"lua": st.just({"inlineCode": _SCRIPT.format(index)})}
            spec = draw(fields(script, phase=_phases, **_common))
        if index == 3:
            spec["selector"] = {"matchLabels": draw(some_labels)}
        name = "WasmPlugin" if kind == "plugin" else "TrafficExtension"
        documents.append(document(name, f"ext-{index}", namespace, spec, group=_GROUP))
    return documents
