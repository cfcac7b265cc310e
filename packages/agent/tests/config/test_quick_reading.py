"""A command line that is read without the library for it gives the flags that the library gives."""

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from mesh_agent._command import CommandWithFlags, with_flags
from mesh_agent._start import flags_of
from mesh_agent.config._flags import Flags
from mesh_agent.config._options import OPTIONS
from mesh_agent.config.table._flags import FLAGS

_NAMES = (
    *(each.spelling for each in OPTIONS),
    *(each.name for each in FLAGS),
    *("--unknown", "--help", "-h", "--", "-", "-x", "--log_as", "--domain-name", "--concurrency "),
)
_VALUES = ("", "0", "2", "-1", "65535", "65536", "+3", " 4", "1_000", "٣", "9" * 30, "1.5", "x")
_MORE = ("true", "false", "t", "no", "sidecar", "router", "a=b", "-v", "default:debug", "stderr")
_WORDS = st.one_of(
    st.sampled_from(_NAMES),
    st.sampled_from((*_VALUES, *_MORE)),
    st.builds("{}={}".format, st.sampled_from(_NAMES), st.sampled_from((*_VALUES, *_MORE))),
)


@given(words=st.lists(_WORDS, max_size=7))
def test_both_readers_agree(words: list[str]) -> None:
    quick = flags_of(words)
    if quick is not None:
        assert quick == _read_as_usual(words)


@pytest.mark.parametrize(
    "words",
    [
        ["sidecar", "--domain", "shop.svc.cluster.local", "--proxyLogLevel=warning"],
        ["router", "--concurrency", "2", "--log_target", "stdout", "--log_target", "/tmp/log"],
        ["sidecar", "--serviceCluster", "cart.shop", "--statusPort", "15020", "--trust-domain=x"],
        ["--log_as_json=false", "--stsPort=15463", "--", "/bin/app", "--flag"],
        [],
    ],
    ids=["injected", "gateway", "former", "application", "nothing"],
)
def test_what_pods_have_needs_no_library(words: list[str]) -> None:
    assert flags_of(words) == _read_as_usual(words)


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--concurrency", "two"],
        ["--concurrency"],
        ["--stsPort=65536"],
        ["--log_as_json=maybe"],
        ["sidecar", "router"],
        ["--"],
    ],
    ids=" ".join,
)
def test_help_and_mistakes_are_left_to_the_library(words: list[str]) -> None:
    assert flags_of(words) is None


def _read_as_usual(words: list[str]) -> Flags:
    found: list[Flags] = []

    def keep(flags: Flags) -> None:
        found.append(flags)

    app = typer.Typer()
    app.command("proxy", cls=CommandWithFlags)(with_flags(keep))
    app(words, standalone_mode=False)
    (flags,) = found
    return flags
