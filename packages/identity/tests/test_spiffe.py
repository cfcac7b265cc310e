import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_identity import (
    InvalidSpiffeId,
    SpiffeId,
    checked_segment,
    checked_trust_domain,
    spiffe_prefix,
)

TRUST_DOMAIN = st.from_regex(r"[a-z0-9._-]{1,60}", fullmatch=True)
SEGMENT = st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,30}", fullmatch=True)


@given(TRUST_DOMAIN, SEGMENT, SEGMENT)
def test_what_is_written_is_read_back(trust_domain: str, namespace: str, account: str) -> None:
    spiffe_id = SpiffeId.for_service_account(
        trust_domain=trust_domain, namespace=namespace, service_account=account
    )
    assert str(spiffe_id) == f"spiffe://{trust_domain}/ns/{namespace}/sa/{account}"
    assert SpiffeId.parse(str(spiffe_id)) == spiffe_id


@given(TRUST_DOMAIN, st.lists(SEGMENT, min_size=1, max_size=8))
def test_any_path_of_segments_is_an_id(trust_domain: str, segments: list[str]) -> None:
    text = f"spiffe://{trust_domain}/{'/'.join(segments)}"
    spiffe_id = SpiffeId.parse(text)
    assert str(spiffe_id) == text
    assert text == spiffe_prefix(spiffe_id.trust_domain) + "/".join(segments)
    is_istio_s = len(segments) == 4 and (segments[0], segments[2]) == ("ns", "sa")
    assert bool(spiffe_id.namespace) == bool(spiffe_id.service_account) == is_istio_s


@given(st.text())
def test_any_other_text_is_refused_with_one_sentence(text: str) -> None:
    with pytest.raises(InvalidSpiffeId) as refused:
        SpiffeId.parse(text)
    assert len(str(refused.value)) < 2000


@pytest.mark.parametrize(
    "text",
    [
        "spiffe://cluster.local/ns/a/sa/b/",
        "spiffe://cluster.local/ns/a/sa/",
        "spiffe://cluster.local/ns//sa/b",
        "spiffe://cluster.local//ns/a/sa/b",
        "spiffe://cluster.local/ns/../sa/b",
        "spiffe://cluster.local/ns/./sa/b",
        "spiffe://cluster.local/",
        "spiffe://cluster.local",
        "spiffe://Cluster.Local/ns/a/sa/b",
        "spiffe://cluster.local:80/ns/a/sa/b",
        "spiffe://user@cluster.local/ns/a/sa/b",
        "spiffe://cluster%2elocal/ns/a/sa/b",
        "spiffe://cluster.local/ns/a/sa/b?c",
        "spiffe://cluster.local/ns/a/sa/b#c",
        "spiffe://cluster.local/ns/a%2f/sa/b",
        "spiffe://cluster.local/ns/a%20/sa/b",
        "spiffe://cluster.local/ns/ä/sa/b",
        "spiffe:///ns/a/sa/b",
        "SPIFFE://cluster.local/ns/a/sa/b",
        "https://cluster.local/ns/a/sa/b",
        "cluster.local/ns/a/sa/b",
        "spiffe:/cluster.local/ns/a/sa/b",
        " spiffe://cluster.local/ns/a/sa/b",
        "spiffe://cluster.local/ns/a/sa/b\n",
        f"spiffe://{'a' * 256}/ns/a/sa/b",
        "",
    ],
)
def test_near_misses_are_refused(text: str) -> None:
    with pytest.raises(InvalidSpiffeId):
        SpiffeId.parse(text)


def test_trust_domain_may_have_255_bytes_and_the_whole_2048() -> None:
    assert SpiffeId.parse(f"spiffe://{'a' * 255}/b").trust_domain == "a" * 255

    longest = "spiffe://td/" + "a" * (2048 - len("spiffe://td/"))
    assert str(SpiffeId.parse(longest)) == longest
    with pytest.raises(InvalidSpiffeId, match="longer than 2048 bytes"):
        SpiffeId.parse(longest + "a")
    with pytest.raises(InvalidSpiffeId, match="longer than 2048 bytes"):
        SpiffeId.for_service_account(
            trust_domain="td", namespace="a" * 2000, service_account="b" * 100
        )


def test_part_that_is_wrong_is_named() -> None:
    with pytest.raises(InvalidSpiffeId, match="trust domain 'A' must be"):
        checked_trust_domain("A")
    with pytest.raises(InvalidSpiffeId, match="namespace 'a/b' must be"):
        SpiffeId.for_service_account(trust_domain="td", namespace="a/b", service_account="c")
    with pytest.raises(InvalidSpiffeId, match="service account '' must be"):
        SpiffeId.for_service_account(trust_domain="td", namespace="a", service_account="")
    with pytest.raises(InvalidSpiffeId, match=r"account '\.\.' must be"):
        checked_segment("..", what="account")
    with pytest.raises(InvalidSpiffeId, match="each after a /"):
        SpiffeId(trust_domain="td", path="no-slash")


def test_prefix_is_of_one_trust_domain_only() -> None:
    assert not str(SpiffeId.parse("spiffe://td.example/a")).startswith(spiffe_prefix("td"))
