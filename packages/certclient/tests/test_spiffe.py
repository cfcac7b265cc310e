import pytest
from hypothesis import given
from hypothesis import strategies as st

from certclient import InvalidSpiffeId, SpiffeId

SEGMENT = st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,30}", fullmatch=True)


@given(st.from_regex(r"[a-z0-9._-]{1,60}", fullmatch=True), SEGMENT, SEGMENT)
def test_what_is_written_is_read_back(trust_domain: str, namespace: str, account: str) -> None:
    spiffe_id = SpiffeId(trust_domain=trust_domain, namespace=namespace, service_account=account)
    assert SpiffeId.parse(str(spiffe_id)) == spiffe_id


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
        "spiffe://Cluster.Local/ns/a/sa/b",
        "spiffe://cluster.local:80/ns/a/sa/b",
        "spiffe://cluster.local/ns/../sa/b",
        "spiffe://cluster.local/ns/a/sa/b?c",
        "spiffe://cluster.local/ns/a%2f/sa/b",
        "spiffe:///ns/a/sa/b",
        "https://cluster.local/ns/a/sa/b",
        "spiffe://cluster.local/ns/a/sa/b\n",
        f"spiffe://{'a' * 256}/ns/a/sa/b",
    ],
)
def test_near_misses_are_refused(text: str) -> None:
    with pytest.raises(InvalidSpiffeId):
        SpiffeId.parse(text)
