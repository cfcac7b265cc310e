"""docs/istioctl.md shows the commands that its tool runs; with istioctl at hand, they work."""

import re
import subprocess

import pytest

import istioctl_page
from istioctl_page import Output, Shown, mistakes

ALL = [shown for _, _, commands in istioctl_page._SECTIONS for shown in commands]
TEXT = istioctl_page.PAGE.read_text()


def shown_blocks() -> dict[str, str]:
    block = r"^```\n\$ istioctl (.*)\n((?:.*\n)*?)```$"
    return dict(re.findall(block, TEXT, re.MULTILINE))


def test_the_page_has_each_command_and_no_other() -> None:
    assert list(shown_blocks()) == [shown.words for shown in ALL]


def test_what_is_shown_begins_as_the_command_is_to_print() -> None:
    for shown in ALL:
        said = shown_blocks()[shown.words]
        assert said.strip(), shown.words
        assert ("Error:" in said) == (not shown.succeeds), shown.words


def test_output_that_is_not_as_expected_is_reported() -> None:
    shown = Shown("proxy-status", ("backend.shop", "frontend.shop"))
    assert mistakes(shown, Output(0, "backend.shop frontend.shop")) == []
    assert mistakes(shown, Output(1, "backend.shop")) == ["no 'frontend.shop'", "exit status 1"]


@pytest.mark.skipif(
    istioctl_page.find_istioctl() is None,
    reason="istioctl is not on PATH, and ISTIOCTL does not name it",
)
def test_istioctl_works_against_a_mesh_of_two_agents() -> None:
    istioctl = istioctl_page.find_istioctl()
    assert istioctl is not None
    found = {}
    with istioctl_page.lab(istioctl) as running:
        for shown in ALL:
            try:
                if wrong := mistakes(shown, running.run(shown)):
                    found[shown.words] = wrong
            except subprocess.TimeoutExpired:
                found[shown.words] = ["no end"]
    assert found == {}
