"""Checks that several kinds share: what each lets pass, and what is reported of the rest."""

import pytest

from istio_config.kinds import checks
from istio_config.kinds._regular_expressions import regex_mistake
from istio_config.kinds.formats._commands import header_value_mistake
from mesh_configfile import Duration
from mesh_configfile.shapes import Finding

VALUES = [
    "",
    "plain",
    "50%%",
    "%REQ(x-id)%",
    "%REQ(a?b):5%-%PROTOCOL%",
    "%START_TIME%",
    "%START_TIME(%s.%3f)%",
    "%DOWNSTREAM_PEER_URI_SAN%",
    'as=%DYNAMIC_METADATA(["a","b"])%',
]
WRONG_VALUES = {
    "5%": 'has a % at "%" that begins no command; write %% for a %',
    "%REQ(x)": 'has a % at "%REQ(x)" that begins no command; write %% for a %',
    "%REQ%": "has %REQ%, which needs its argument in brackets",
    "%PROTOCOL(x)%": "has %PROTOCOL%, which takes no argument",
    "%USER%": "has %USER%, which is none of Envoy's commands; write %% for a %",
    "a\r\nb: c": "must be one line of text",
}


@pytest.mark.parametrize("value", VALUES)
def test_values_that_envoy_takes_are_let_pass(value: str) -> None:
    assert header_value_mistake(value) is None


@pytest.mark.parametrize(("value", "reason"), WRONG_VALUES.items())
def test_values_that_envoy_refuses_are_mistakes(value: str, reason: str) -> None:
    assert header_value_mistake(value) == reason


EXPORTS = {
    (".",): [],
    ("*",): [],
    ("~",): [],
    ("a", "b"): [],
    (".", "a"): [],
    (".", "here"): [((1,), '"here" is given twice')],
    ("a", "a"): [((1,), '"a" is given twice')],
    ("*", "a"): [((0,), '"*" must stand alone')],
    ("a", "~"): [((1,), '"~" must stand alone')],
    ("a_b",): [
        (
            (0,),
            (
                '"a_b" is not a namespace; write a name, "." for this one, "*" for all or "~" '
                "for none"
            ),
        )
    ],
}


@pytest.mark.parametrize(("values", "findings"), EXPORTS.items())
def test_namespaces_of_an_export_are_checked(
    values: tuple[str, ...], findings: list[Finding]
) -> None:
    assert list(checks.export_to_mistakes(values, "here", ())) == findings


HOSTS = {"a": True, "a.b": True, "*": True, "*.a": True, "*a.b": True, "*-a.b": True}
NO_HOSTS = dict.fromkeys(["", "*.", "a..b", "a.*.b", "**.a", "a b", "-a", "https://a"], False)


@pytest.mark.parametrize(("host", "is_one"), {**HOSTS, **NO_HOSTS}.items())
def test_hosts_may_begin_with_a_wildcard(host: str, is_one: bool) -> None:  # noqa: FBT001
    assert checks.is_wildcard_host(host) is is_one


LABELS: dict[str, tuple[dict[str, str], str]] = {
    "right": ({"app.kubernetes.io/name": "a_b.c", "x": ""}, ""),
    "empty key": ({"": "a"}, '"" is not the key of a label'),
    "wildcard": ({"a": "*"}, '"*" is not the value of a label'),
    "two slashes": ({"a/b/c": "a"}, '"a/b/c" is not the key of a label'),
    "space": ({"a": "b c"}, '"b c" is not the value of a label'),
}


@pytest.mark.parametrize(("labels", "message"), LABELS.values(), ids=LABELS.keys())
def test_labels_are_spelled_as_in_kubernetes(labels: dict[str, str], message: str) -> None:
    assert next((text for _, text in checks.label_mistakes(labels, ())), "") == message


def test_percentages_are_from_zero_to_a_hundred() -> None:
    assert checks.percent_mistake(100) is checks.percent_mistake(0.0001) is None
    assert checks.percent_mistake(101) == "must be from 0 to 100, found 101"
    assert checks.percent_mistake(0.00001) == "must be 0 or at least 0.0001, found 1e-05"


def test_durations_are_of_whole_milliseconds() -> None:
    assert checks.duration_mistake(Duration(3600.001)) is None
    assert checks.duration_mistake(Duration(0)) == "must be at least 1ms"
    assert checks.duration_mistake(Duration(0.0015)) == "must be of whole milliseconds"


UNREAD = ["", "(?=a)", r"(a)\1", "a**", "a{1001}", "(a", "a" * 1025]


@pytest.mark.parametrize("text", UNREAD)
def test_expressions_that_re2_can_not_read_are_mistakes(text: str) -> None:
    assert regex_mistake(text) is not None
