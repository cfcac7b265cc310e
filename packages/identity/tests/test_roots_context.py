"""A client trusts the roots that it is given, and never the machine's in their place."""

import ssl

import pytest

from mesh_identity import NoUsableRoots, roots_context
from mesh_testkit.certificates import Authority


@pytest.mark.parametrize("roots", [b"", b"\n", b"none here", "Schlüssel".encode(), b"\x00\xff"])
def test_without_a_certificate_there_is_no_context(roots: bytes) -> None:
    with pytest.raises(NoUsableRoots):
        roots_context(roots)


def test_a_comment_in_another_character_set_does_no_harm() -> None:
    root = Authority().root_pem
    context = roots_context("# Größe\n".encode("latin-1") + root)
    assert [ssl.DER_cert_to_PEM_cert(each) for each in context.get_ca_certs(binary_form=True)] == [
        root.decode()
    ]


def test_the_server_and_its_name_are_checked() -> None:
    context = roots_context(Authority().root_pem)
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
