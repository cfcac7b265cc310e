"""Key sets of a model: a rule's own, the fetched one, or one by which no token is right."""

import json

from istio_config.kinds.request_authentication import JwtRule, check_key_set
from mesh_model.policies._key_sets import NO_KEY_SETS, KeySets, KeySource, no_keys, source_of

OF_URI, OF_ISSUER = KeySource("https://a.example/keys"), KeySource("", "https://a.example")


def test_keys_are_the_rules_own_or_fetched_from_its_address_or_found_by_the_issuer() -> None:
    issuer = "https://a.example"
    assert source_of(JwtRule(issuer=issuer, jwks="own", jwks_uri=OF_URI.uri)) is None
    assert source_of(JwtRule(issuer=issuer, jwks_uri=OF_URI.uri)) == OF_URI
    assert source_of(JwtRule(issuer=issuer)) == OF_ISSUER
    sets = KeySets({OF_URI: "by uri", OF_ISSUER: "by issuer"})
    assert sets.get(JwtRule(issuer=issuer, jwks="own")) == "own"
    assert sets.get(JwtRule(issuer=issuer, jwks_uri=OF_URI.uri)) == "by uri"
    assert sets.get(JwtRule(issuer=issuer)) == "by issuer"


def test_until_a_set_is_fetched_envoy_gets_a_usable_one_that_is_always_the_same() -> None:
    keys = NO_KEY_SETS.get(JwtRule(jwks_uri=OF_URI.uri))
    check_key_set(keys)  # its point is on the curve
    (key,) = json.loads(keys)["keys"]
    assert key.keys() == {"kty", "crv", "alg", "x", "y"}
    assert keys == no_keys()


def test_sets_differ_by_the_sources_that_changed_came_or_went() -> None:
    gone, same = KeySource("https://gone"), KeySource("https://same")
    before = KeySets({OF_URI: "1", same: "x", gone: "y"})
    after = KeySets({OF_URI: "2", same: "x", OF_ISSUER: "z"})
    assert before.differing(after) == {OF_URI, OF_ISSUER, gone}
    assert before.differing(KeySets({OF_URI: "1", same: "x", gone: "y"})) == frozenset()
