"""Callers prove who they are by a client certificate or a token, which is checked here.

The protocol that each way of proof keeps is in `_authenticator`. Certificates:
`_client_certificate`; how long one renews itself without a token: `_self_renewal`. Tokens: `_jwt`,
with the keys of `_jwks`, which `_remote_jwks` fetches from their issuer; `_token_issuer` makes
tokens where there is no Kubernetes. What a caller then gets is decided in `service`.
"""
