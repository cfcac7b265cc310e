from datetime import timedelta

import pytest

from istio_settings import (
    LayerError,
    ProxyConfig,
    merge_layers,
    mesh_layer,
    parse_layer,
    single_layers,
)


def test_no_layers_give_istios_defaults() -> None:
    assert merge_layers([]) == ProxyConfig()
    assert ProxyConfig().discovery_address == "istiod.istio-system.svc:15012"


def test_a_higher_layer_replaces_a_field_and_metadata_is_merged() -> None:
    merged = merge_layers(
        [
            parse_layer(
                "file",
                """
                discoveryAddress: one:15012
                drainDuration: 10s
                extraStatTags: [a]
                proxyMetadata: {A: "1", B: "1"}
                """,
            ),
            parse_layer(
                "env",
                '{"discoveryAddress": "two:15012", "extraStatTags": ["b"],'
                ' "proxyMetadata": {"B": "2"}}',
            ),
        ]
    )
    assert merged.discovery_address == "two:15012"
    assert merged.drain_duration == timedelta(seconds=10)
    assert merged.proxy_metadata == {"A": "1", "B": "2"}
    assert merged.merged["extraStatTags"] == ["b"]
    assert merged.merged["proxyMetadata"] == {"A": "1", "B": "2"}


def test_mesh_config_contributes_its_default_config() -> None:
    layer = mesh_layer("mesh", "trustDomain: x.example\ndefaultConfig: {proxyAdminPort: 15999}")
    assert merge_layers([layer]).proxy_admin_port == 15999


def test_annotations_and_flags_override_when_given() -> None:
    lower = parse_layer("env", '{"discoveryAddress": "one:15012", "concurrency": 1}')
    upper = single_layers(status_port="15999", concurrency=3)
    merged = merge_layers([lower, *upper])
    assert (merged.discovery_address, merged.status_port, merged.concurrency) == (
        "one:15012",
        15999,
        3,
    )


def test_concurrency_zero_means_envoys_own_choice() -> None:
    assert merge_layers([parse_layer("env", '{"concurrency": 0}')]).concurrency is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "PROXY_CONFIG:1: not valid YAML"),
        pytest.param("[" * 100_000, "PROXY_CONFIG:1: .* nested deeper", id="nested-too-deeply"),
        (
            "statusPort: 1\nstatusPort: 2",
            "PROXY_CONFIG:2: statusPort: given twice, first on line 1: keep one",
        ),
        ('{"statusPort": 1, "statusPort": 2}', "PROXY_CONFIG:1: statusPort: given twice"),
        ("statusPort: !!int x", "PROXY_CONFIG:1: statusPort: 'x' does not fit its tag"),
        ("serviceCluster: !!binary aGk=", "PROXY_CONFIG:1: serviceCluster: the tag"),
        ("a: 1\n---\nb: 1", "PROXY_CONFIG:3: only one document can stand here"),
        ("serviceCluster: a\udc80", "PROXY_CONFIG:1: not UTF-8 text"),
        ("- a", "PROXY_CONFIG: must be a mapping"),
        (
            "discoverAddress: x:1",
            "'discoverAddress' is not a field.*did you mean 'discoveryAddress'",
        ),
        ("statusPort: '15020'", "statusPort is '15020', it must be a number"),
        ("concurrency: true", "concurrency is True, it must be a number"),
    ],
)
def test_a_layer_that_cant_be_read_is_named_with_its_field(text: str, complaint: str) -> None:
    with pytest.raises(LayerError, match=complaint):
        parse_layer("PROXY_CONFIG", text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"discoveryAddress": "istiod"}', "discoveryAddress is 'istiod', it must be host:port"),
        ('{"discoveryAddress": "istiod:99999"}', "it must be host:port"),
        ('{"statusPort": 0}', "statusPort is 0, it must be a port, 1 to 65535"),
        ('{"drainDuration": "soon"}', "drainDuration is 'soon', it must be a duration"),
        ('{"drainDuration": "1d"}', "it must be a duration such as 45s; a day is 24h"),
        ('{"drainDuration": "-1s"}', "it must be from 0s to 1193046h28m15s"),
        ('{"parentShutdownDuration": "9999999h"}', "it must be from 0s to 1193046h28m15s"),
        ('{"controlPlaneAuthPolicy": "MAYBE"}', "it must be NONE or MUTUAL_TLS"),
        ('{"configPath": ""}', "configPath is '', it must be text"),
        ('{"concurrency": -1}', "concurrency is -1"),
    ],
)
def test_a_value_that_makes_no_sense_is_named_with_its_layer(text: str, complaint: str) -> None:
    with pytest.raises(LayerError, match=f"PROXY_CONFIG: .*{complaint}|PROXY_CONFIG: {complaint}"):
        merge_layers([parse_layer("PROXY_CONFIG", text)])


def test_all_mistakes_of_a_layer_are_reported_at_once_with_their_lines() -> None:
    text = "trustDomain: x\ndefaultConfig:\n  statusPort: a\n  concurency: 1\n"
    with pytest.raises(LayerError) as caught:
        mesh_layer("mesh", text)
    assert caught.value.problems == (
        "mesh:3: defaultConfig: statusPort is 'a', it must be a number",
        (
            "mesh:4: defaultConfig: 'concurency' is not a field of ProxyConfig; did you mean "
            "'concurrency'?"
        ),
    )


def test_all_values_that_make_no_sense_are_reported_at_once() -> None:
    layer = parse_layer("PROXY_CONFIG", '{"statusPort": 0, "drainDuration": "soon"}')
    with pytest.raises(LayerError) as caught:
        merge_layers([layer])
    assert caught.value.problems == (
        "PROXY_CONFIG: drainDuration is 'soon', it must be a duration such as 45s",
        "PROXY_CONFIG: statusPort is 0, it must be a port, 1 to 65535",
    )


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), (".5s", 0.5), ("1us", 1e-6)])
def test_durations_are_gos(text: str, seconds: float) -> None:
    merged = merge_layers([parse_layer("env", f'{{"drainDuration": "{text}"}}')])
    assert merged.drain_duration == timedelta(seconds=seconds)


def test_a_date_stays_the_text_it_was_written_as() -> None:
    layer = parse_layer("env", "proxyMetadata: {BUILT: 2020-01-01, AT: 12:30}")
    assert layer.values["proxyMetadata"] == {"BUILT": "2020-01-01", "AT": "12:30"}
