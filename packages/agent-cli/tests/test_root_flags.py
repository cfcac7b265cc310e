"""The flags that Istio's command takes anywhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_fixtures import Call
from mesh_agent_cli._root_flags import place_root_flags


@pytest.mark.parametrize(
    ("words", "placed", "useless"),
    [
        (
            "--log_output_level debug proxy sidecar",
            "proxy --log_output_level debug sidecar",
            "",
        ),
        ("--log_as_json --vklog=3 config", "config --log_as_json --vklog=3", ""),
        ("--log_as_json version --short", "version --short", "--log_as_json"),
        ("wait --log_target x --url y", "wait --url y", "--log_target"),
        ("request GET stats -- --log_as_json", "request GET stats -- --log_as_json", ""),
        ("--log_as_json", "--log_as_json", ""),
        ("--log_target", "--log_target", ""),
        ("", "", ""),
    ],
)
def test_flags_of_the_log_go_to_the_commands_that_take_them(
    words: str, placed: str, useless: str
) -> None:
    assert place_root_flags(words.split()) == (placed.split(), useless.split())


@given(st.lists(st.sampled_from(["--log_as_json", "--log_target", "--vklog=1", "a", "--b", "--"])))
def test_no_other_word_is_lost(words: list[str]) -> None:
    placed, _ = place_root_flags(["proxy", *words])
    assert placed == ["proxy", *words]


def test_a_flag_that_has_no_effect_is_reported_and_the_command_runs(call: Call) -> None:
    called = call("--log_output_level=debug", "version", "--short")
    assert called.status == 0
    assert called.out.strip()
    assert called.error == (
        "mesh-agent: --log_output_level: without effect, flags of the agent's log count for proxy\n"
    )
