"""A signer process: reads requests from the socket that is its standard input, and answers them.

    python -P -m mesh_ca.signers._process

It reads nothing from the network or a disk, and ends when the socket does. Of this package it loads
the check of a request and the assembly of a certificate.
"""

import gc
import socket
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_der_private_key

from mesh_ca._errors import CsrError
from mesh_ca.authority._csr import parse_csr
from mesh_ca.authority._keys import EncodedKey, accepted_signing_key
from mesh_ca.authority._profile import Leaf, LeafTemplate, leaf_template, signed_leaf
from mesh_ca.authority._signer import key_id
from mesh_ca.signers._frames import (
    Answer,
    Failed,
    Frames,
    Install,
    Instruction,
    Refused,
    Sign,
    Signed,
    frame,
)

_READ_BYTES = 256 * 1024


class Signatory:
    """Does what the serving process says, in order."""

    def __init__(self) -> None:
        self._template: LeafTemplate | None = None

    def obey(self, instruction: Instruction) -> Answer | None:
        """Return the answer to an instruction; None if it has none."""
        if isinstance(instruction, Install):
            certificate = x509.load_der_x509_certificate(instruction.certificate)
            key = accepted_signing_key(load_der_private_key(instruction.key, password=None))
            self._template = leaf_template(certificate, key, key_id(certificate))
            return None
        try:
            return self._signed(instruction)
        except CsrError as error:
            return Refused(number=instruction.number, reason=str(error))
        except Exception as error:  # noqa: BLE001 - the next request is not at fault
            return Failed(number=instruction.number, reason=repr(error))

    def _signed(self, instruction: Sign) -> Signed:
        if self._template is None:
            raise RuntimeError("asked to sign before a key was installed")
        request = parse_csr(instruction.csr)
        public_key = EncodedKey.encode(request.public_key)
        leaf = Leaf(
            names=instruction.names,
            common_name=instruction.common_name,
            serial=int.from_bytes(instruction.serial, "big"),
            not_before=datetime.fromtimestamp(instruction.not_before, UTC),
            not_after=datetime.fromtimestamp(instruction.not_after, UTC),
        )
        pem = signed_leaf(leaf, public_key, self._template, named=request.has_common_name)
        return Signed(
            number=instruction.number, leaf_pem=pem, public_key_sha256=public_key.sha256()
        )


def serve(connection: socket.socket) -> None:
    """Answer what comes on the connection until it ends."""
    frames, signatory = Frames(), Signatory()
    try:
        while data := connection.recv(_READ_BYTES):
            for instruction in frames.instructions(data):
                if (answer := signatory.obey(instruction)) is not None:
                    connection.sendall(frame(answer))
    except ConnectionError:
        pass  # the serving process has ended, or has no more use for this one


if __name__ == "__main__":
    gc.freeze()
    with socket.socket(fileno=0) as serving_process:
        serve(serving_process)
