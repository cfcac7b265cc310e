"""Secrets of the control plane's, as Envoys fetch them over SDS."""

from envoy_config.generate._messages import secret_pb2
from mesh_model.secrets import KeyPair, Roots


def secret(name: str, content: KeyPair | Roots) -> secret_pb2.Secret:
    """Make the message of a certificate with its key, or of roots."""
    message = secret_pb2.Secret(name=name)
    match content:
        case KeyPair():
            certificate = message.tls_certificate
            certificate.certificate_chain.inline_bytes = content.chain_pem
            certificate.private_key.inline_bytes = content.key_pem
            if content.staple_der:
                certificate.ocsp_staple.inline_bytes = content.staple_der
        case Roots():
            message.validation_context.trusted_ca.inline_bytes = content.roots_pem
            if content.revocations_pem:
                message.validation_context.crl.inline_bytes = content.revocations_pem
    return message
