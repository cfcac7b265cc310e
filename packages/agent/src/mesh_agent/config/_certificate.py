"""Settings of the workload certificate: its identity, key, lifetime and files; revocation lists."""

from datetime import timedelta

import certclient
from istio_settings import NodeIdentity, Settings
from mesh_agent.config._grpc import serves_grpc

_MOUNTED = "./etc/certs"
_REVOCATION_LIST = "./var/run/secrets/istio/crl/ca-crl.pem"


def spiffe_id_of(settings: Settings, identity: NodeIdentity) -> certclient.SpiffeId:
    try:
        return certclient.SpiffeId.for_service_account(
            trust_domain=settings.text("TRUST_DOMAIN", "cluster.local"),
            namespace=identity.namespace,
            service_account=identity.service_account,
        )
    except certclient.InvalidSpiffeId as error:
        settings.problems.append(
            f"TRUST_DOMAIN, POD_NAMESPACE and SERVICE_ACCOUNT don't make an identity: {error}"
        )
        return certclient.SpiffeId.for_service_account(
            trust_domain="x", namespace="x", service_account="x"
        )


def files_config(settings: Settings) -> certclient.FilesConfig | None:
    """Return the files of a mounted certificate; None if the agent gets its own.

    The directories that the agent itself writes to, or that only hold the certificate that the
    machine was provisioned with, don't count.
    """
    demanded = settings.flag("FILE_MOUNTED_CERTS")
    if demanded and settings.text("PROV_CERT"):
        settings.problems.append(
            "FILE_MOUNTED_CERTS and PROV_CERT are both set: unset the first if the agent is to ask "
            "for a certificate, the second if the workload's certificate is mounted"
        )
    found = certclient.mounted_files(settings.under("."), is_file=settings.is_file)
    if found is None and demanded:
        return certclient.FilesConfig.in_directory(settings.under(_MOUNTED))
    if found is None:
        return None
    own = {
        settings.resolved(settings.under(name))
        for variable in ("OUTPUT_CERTS", "PROV_CERT")
        if (name := settings.text(variable))
    }
    return None if settings.resolved(found.certificate_path.parent) in own else found


def rotation_config(
    settings: Settings, spiffe_id: certclient.SpiffeId
) -> certclient.RotationConfig:
    return certclient.RotationConfig(
        spiffe_id=spiffe_id,
        key_type=_key_type(settings),
        # A gRPC application reads the key's file itself, and Java reads PKCS #8 only.
        key_encoding=(
            certclient.KeyEncoding.PKCS8
            if settings.flag("PKCS8_KEY", default=serves_grpc(settings))
            else certclient.KeyEncoding.TRADITIONAL
        ),
        lifetime=settings.positive_duration("SECRET_TTL", timedelta(hours=24)),
        grace_ratio=settings.ratio("SECRET_GRACE_PERIOD_RATIO", 0.5),
        jitter=settings.ratio("SECRET_GRACE_PERIOD_RATIO_JITTER", 0.01),
    )


def _key_type(settings: Settings) -> certclient.KeyType:
    algorithm = settings.text("ECC_SIGNATURE_ALGORITHM")
    if algorithm == "ECDSA":
        curve = settings.text("ECC_CURVE", "P256")
        if curve not in ("P256", "P384"):
            settings.problems.append(f"ECC_CURVE is {curve!r}, it must be P256 or P384")
        return certclient.KeyType.P384 if curve == "P384" else certclient.KeyType.P256
    if algorithm:
        settings.problems.append(
            f"ECC_SIGNATURE_ALGORITHM is {algorithm!r}, it must be ECDSA or empty"
        )
    size = settings.text("WORKLOAD_RSA_KEY_SIZE")
    sizes = {
        "": certclient.KeyType.P256,
        "2048": certclient.KeyType.RSA_2048,
        "3072": certclient.KeyType.RSA_3072,
        "4096": certclient.KeyType.RSA_4096,
    }
    if size not in sizes:
        settings.problems.append(
            f"WORKLOAD_RSA_KEY_SIZE is {size!r}, it must be 2048, 3072 or 4096"
        )
        return certclient.KeyType.P256
    return sizes[size]


def output_config(settings: Settings) -> certclient.OutputFilesConfig | None:
    directory = settings.text("OUTPUT_CERTS")
    if not directory:
        return None
    # In a pod another container reads the files, as another user; on a machine no other user does.
    return certclient.OutputFilesConfig(
        directory=settings.under(directory),
        mode=0o644 if settings.in_kubernetes else 0o600,
        # gRPC looks at the files now and then, and would go on with a key that is of another
        # certificate until the next time.
        atomic=serves_grpc(settings),
    )


def trust_config(settings: Settings) -> certclient.TrustConfig:
    revoked = settings.under(_REVOCATION_LIST)
    # Followed only where the platform mounts one: following a file costs memory.
    wanted = settings.flag("PILOT_ENABLE_CA_CRL", default=True) and settings.is_directory(
        revoked.parent
    )
    return certclient.TrustConfig(crl_path=revoked if wanted else None)
