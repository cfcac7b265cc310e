"""AWS: the instance identity document, by IMDSv2 and, where a token can't be had, by IMDSv1.

Source: Amazon EC2 User Guide, "Instance identity documents" and "Use IMDS".
"""

import asyncio

from mesh_platform._errors import NoMetadata
from mesh_platform._http import MetadataAddress, ask, ask_for_text, read_object
from mesh_platform._platform import Platform, word, words

_DOCUMENT = "/latest/dynamic/instance-identity/document"
_TOKEN_TIMEOUT_S = 1.0
"""From a container the answer may be lost: by default it may make one hop."""


async def ask_aws(server: MetadataAddress) -> Platform:
    """Return what AWS knows of this machine; raises `NoMetadata`."""
    token = await _token(server)
    headers = {"X-aws-ec2-metadata-token": token} if token else {}
    text, _ = await ask_for_text(server, _DOCUMENT, host=server.host, headers=headers)
    document = read_object(text, f"{server}{_DOCUMENT}")
    return Platform(
        name="aws",
        region=word(document.get("region"), "region"),
        zone=word(document.get("availabilityZone"), "availabilityZone"),
        metadata=words(
            {
                "aws_region": document.get("region"),
                "aws_availability_zone": document.get("availabilityZone"),
                "aws_instance_id": document.get("instanceId"),
                "aws_account_id": document.get("accountId"),
            }
        ),
    )


async def _token(server: MetadataAddress) -> str:
    """Return a session token; empty if there is none to be had, and IMDSv1 is to be tried."""
    try:
        async with asyncio.timeout(_TOKEN_TIMEOUT_S):
            answer = await ask(
                server,
                "/latest/api/token",
                host=server.host,
                headers={"X-aws-ec2-metadata-token-ttl-seconds": "60", "content-length": "0"},
                method="PUT",
            )
    except (NoMetadata, TimeoutError):
        return ""
    token = answer.body.decode("latin-1").strip()
    return token if answer.status == 200 and token.isascii() and token.isprintable() else ""
