"""Callers prove who they are by a client certificate or a token, which is checked here.

The protocol that each way of proof keeps is in `_authenticator`. Certificates:
`_client_certificate`; how long one renews itself without a token: `_self_renewal`. Tokens: `_jwt`,
with the keys of `_jwks`, which `_remote_jwks` fetches from their issuer; `_token_issuer` makes
tokens where there is no Kubernetes.

Any caller with one of the proofs that the server was given may call. mesh-discovery's are a token
of the configured issuer, else an unrevoked certificate of the mesh
(`serve/_caller_authentication`).
What a caller then gets is decided in `service/_certificate_service`: a certificate of the proven
identities alone, with the lifetime that `authority/_authority` allows.
"""
