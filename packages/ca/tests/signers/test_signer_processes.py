"""Real signer processes: killed, stopped, overtaken by a change of the root, outlived by no one."""

import asyncio
import os
import signal
import subprocess
import sys
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import grpc.aio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from prometheus_client import CollectorRegistry

from mesh_ca import (
    Authority,
    CsrError,
    IdentityError,
    Issued,
    LifetimeError,
    NotReadyError,
    SignerLimits,
    SignerProcesses,
    SignersUnavailable,
    certificate_service,
    grpc_credentials,
    signer_processes,
)
from mesh_ca.signers._signer_process import _install
from mesh_ca.testing import FixedAuthenticator, signing_request, throwaway_authority
from mesh_protos import CREATE_CERTIFICATE
from mesh_protos.ca_pb2 import IstioCertificateRequest, IstioCertificateResponse
from mesh_testkit import until

CART = "spiffe://cluster.local/ns/shop/sa/cart"
CSR = signing_request()[1]
QUICK = SignerLimits(silent_s=0.5)


def verified(issued: Issued) -> x509.Certificate:
    """The leaf, which the chain that it came with vouches for."""
    leaf, root = (x509.load_pem_x509_certificate(pem) for pem in issued.chain_pem)
    leaf.verify_directly_issued_by(root)
    return leaf


async def replaced(signers: SignerProcesses, old: tuple[int, ...]) -> int:
    """The id of a process that was started since."""

    def new() -> list[int]:
        return [pid for pid in signers.process_ids if pid not in old]

    await until(lambda: bool(new()), what="a process that is started again")
    return new()[0]


async def test_certificates_and_refusals_are_those_of_the_authority(authority: Authority) -> None:
    named = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "anything")])
    proven = datetime(2026, 1, 2, tzinfo=UTC)
    async with signer_processes(authority, count=2) as signers:
        issued = await signers.sign(
            CSR, identities=[CART], lifetime=timedelta(hours=1), proven_at=proven
        )
        leaf = verified(issued)
        here = authority.sign(CSR, identities=[CART], lifetime=timedelta(hours=1), proven_at=proven)
        assert [str(each) for each in leaf.extensions] == [
            str(each) for each in verified(here).extensions
        ]
        assert leaf.serial_number == issued.serial
        assert leaf.serial_number >> 104 == here.serial >> 104
        assert (leaf.not_valid_before_utc, leaf.not_valid_after_utc) == (
            issued.not_before,
            issued.not_after,
        )
        assert issued.public_key_sha256 == here.public_key_sha256
        assert issued.identities == (CART,)
        csr = signing_request(subject=named)[1]
        subject = verified(await signers.sign(csr, identities=[CART])).subject
        assert subject.rfc4514_string() == f"CN={CART}"
        for wrong in (b"", b"nonsense", CSR.replace(b"M", b"N"), b"x" * 1_000_000):
            with pytest.raises(CsrError) as there:
                await signers.sign(wrong, identities=[CART])
            with pytest.raises(CsrError) as at_home:
                authority.sign(wrong, identities=[CART])
            assert str(there.value) == str(at_home.value)
        with pytest.raises(LifetimeError):
            await signers.sign(CSR, identities=[CART], lifetime=timedelta(0))
        with pytest.raises(IdentityError):
            await signers.sign(CSR, identities=["spiffe://elsewhere/ns/a/sa/b"])
        with pytest.raises(CsrError, match="revoked"):
            await signers.sign(
                CSR,
                identities=[CART],
                is_key_revoked=lambda sha256: sha256 == issued.public_key_sha256,
            )


async def test_an_authority_that_is_not_valid_yet_signs_nothing() -> None:
    now = 1_800_000_000.0
    authority = throwaway_authority(clock=lambda: now)
    async with signer_processes(authority, count=1) as signers:
        now -= 7 * 86400
        with pytest.raises(NotReadyError):
            await signers.sign(CSR, identities=[CART])


async def test_no_call_is_lost_when_processes_are_killed_under_load(authority: Authority) -> None:
    registry = CollectorRegistry()
    async with signer_processes(authority, count=2, registry=registry) as signers:
        await signers.sign(CSR, identities=[CART])
        calls = [
            asyncio.create_task(signers.sign(CSR, identities=[CART]), name=f"call {number}")
            for number in range(200)
        ]
        await asyncio.sleep(0)
        old = signers.process_ids
        for pid in old:
            os.kill(pid, signal.SIGKILL)
        for issued in await asyncio.gather(*calls):
            verified(issued)
        await until(lambda: len(signers.process_ids) == 2, what="two processes")
        assert not set(signers.process_ids) & set(old)
        assert registry.get_sample_value("mesh_ca_signer_processes_ended_total") == 2
        assert registry.get_sample_value("mesh_ca_signer_processes") == 2
    assert registry.get_sample_value("mesh_ca_signer_processes") == 0


async def test_a_process_that_hangs_is_replaced_and_its_calls_are_answered(
    authority: Authority,
) -> None:
    async with signer_processes(authority, count=1, limits=QUICK) as signers:
        await signers.sign(CSR, identities=[CART])
        (old,) = signers.process_ids
        os.kill(old, signal.SIGSTOP)
        calls = [signers.sign(CSR, identities=[CART]) for _ in range(20)]
        for issued in await asyncio.gather(*calls):
            verified(issued)
        assert signers.process_ids != (old,)


async def test_a_call_at_which_processes_end_again_and_again_is_refused_alone(
    authority: Authority,
) -> None:
    limits = SignerLimits(silent_s=600, start_s=600)
    async with signer_processes(authority, count=1, limits=limits) as signers:
        refused = False
        while not refused:  # a process may have answered before it could be stopped
            await until(lambda: len(signers.process_ids) == 1, what="a process")
            (old,) = signers.process_ids
            os.kill(old, signal.SIGSTOP)
            first = asyncio.create_task(signers.sign(CSR, identities=[CART]), name="first")
            second = asyncio.create_task(signers.sign(CSR, identities=[CART]), name="second")
            await asyncio.sleep(0)
            os.kill(old, signal.SIGKILL)
            new = await replaced(signers, (old,))
            os.kill(new, signal.SIGSTOP)
            os.kill(new, signal.SIGKILL)
            try:
                verified(await first)
            except SignersUnavailable:
                refused = True
            verified(await second)


async def test_each_answer_verifies_with_its_chain_while_the_root_changes(
    authority: Authority,
) -> None:
    others = [throwaway_authority().signer for _ in range(3)]
    async with signer_processes(authority, count=2) as signers:

        async def caller() -> None:
            for _ in range(15):
                verified(await signers.sign(CSR, identities=[CART]))

        async def changes() -> None:
            for number in range(40):
                signer = others[number % 3]
                authority.replace_signer(signer)
                issued = await signers.sign(CSR, identities=[CART])
                assert issued.chain_pem[-1] == signer.root_pem

        async with asyncio.TaskGroup() as group:
            for number in range(10):
                group.create_task(caller(), name=f"caller {number}")
            group.create_task(changes(), name="changes")


async def test_calls_that_waited_for_a_process_are_signed_by_the_newest_root(
    authority: Authority,
) -> None:
    async with signer_processes(authority, count=1, limits=QUICK) as signers:
        await signers.sign(CSR, identities=[CART])
        os.kill(signers.process_ids[0], signal.SIGSTOP)
        waiting = asyncio.create_task(signers.sign(CSR, identities=[CART]), name="waiting")
        await asyncio.sleep(0)
        newest = throwaway_authority().signer
        authority.replace_signer(newest)
        issued = await waiting
        verified(issued)
        assert issued.chain_pem[-1] == newest.root_pem


async def test_more_calls_than_may_wait_are_refused_and_callers_that_go_make_no_room_early(
    authority: Authority,
) -> None:
    limits = SignerLimits(calls=3, silent_s=600)
    async with signer_processes(authority, count=1, limits=limits) as signers:
        await signers.sign(CSR, identities=[CART])
        (pid,) = signers.process_ids
        os.kill(pid, signal.SIGSTOP)
        calls = [
            asyncio.create_task(signers.sign(CSR, identities=[CART]), name=f"call {number}")
            for number in range(3)
        ]
        await asyncio.sleep(0)
        calls[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await calls[0]
        with pytest.raises(SignersUnavailable, match="3 requests wait"):
            await signers.sign(CSR, identities=[CART])
        os.kill(pid, signal.SIGCONT)
        for call in calls[1:]:
            verified(await call)
        for _ in range(4):  # every place is free again
            verified(await signers.sign(CSR, identities=[CART]))


async def test_calls_without_an_answer_end_with_the_signers(authority: Authority) -> None:
    async with signer_processes(authority, count=1) as signers:
        await signers.sign(CSR, identities=[CART])
        os.kill(signers.process_ids[0], signal.SIGSTOP)
        call = asyncio.create_task(signers.sign(CSR, identities=[CART]), name="call")
        await asyncio.sleep(0)
    with pytest.raises(SignersUnavailable):
        await call


async def test_the_key_is_in_no_argument_environment_text_or_message(
    authority: Authority, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("DEBUG")
    installed = _install(authority.signer)
    secret = authority.signer.key.private_numbers()
    assert isinstance(secret, ec.EllipticCurvePrivateNumbers)
    key = secret.private_value.to_bytes(32, "big")
    assert key in installed.key  # so that it would be found
    texts = [repr(installed).encode(), str(installed).encode()]
    async with signer_processes(authority, count=1) as signers:
        await signers.sign(CSR, identities=[CART])
        (pid,) = signers.process_ids
        texts += [Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ")]
        os.kill(pid, signal.SIGKILL)
        await replaced(signers, (pid,))
    texts += [text.encode() for text in (caplog.text, *capfd.readouterr())]
    for form in (key, key.hex().encode(), b64encode(installed.key), repr(key).encode()[2:-1]):
        assert not [text for text in texts if form in text]


def test_a_signer_process_loads_neither_grpc_nor_what_serves() -> None:
    code = (
        "import sys, mesh_ca.signers._process; "
        "print([name for name in ('grpc', 'asyncio', 'jwt', 'prometheus_client', 'mesh_lifecycle')"
        " if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert ran.stdout.strip() == "[]"


async def test_signer_processes_end_with_a_server_that_is_killed() -> None:
    code = """
import asyncio, signal
from mesh_ca import signer_processes
from mesh_ca.testing import signing_request, throwaway_authority
async def main():
    async with signer_processes(throwaway_authority(), count=1) as signers:
        await signers.sign(signing_request()[1], identities=["a.example"])
        print(*signers.process_ids, flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE
    )
    assert server.stdout is not None
    line = await server.stdout.readline()
    os.kill(int(line), signal.SIGSTOP)  # it can't notice the end of the socket
    server.kill()
    await server.wait()
    await until(lambda: not _runs(int(line)), what="the end of the signer process")


def _runs(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@asynccontextmanager
async def served(
    authority: Authority, signers: SignerProcesses
) -> AsyncIterator["grpc.aio.UnaryUnaryMultiCallable[object, IstioCertificateResponse]"]:
    handler = certificate_service(
        authority,
        FixedAuthenticator(CART),
        credentials_of=grpc_credentials,
        sign=signers.sign,
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel.unary_unary(
                CREATE_CERTIFICATE,
                request_serializer=IstioCertificateRequest.SerializeToString,
                response_deserializer=IstioCertificateResponse.FromString,
            )
    finally:
        await server.stop(None)


async def test_the_service_records_what_it_answered_and_tells_that_it_is_busy(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="mesh_ca.audit")
    limits = SignerLimits(calls=1, silent_s=600)
    request = IstioCertificateRequest(csr=CSR.decode())
    async with (
        signer_processes(authority, count=1, limits=limits) as signers,
        served(authority, signers) as create,
    ):
        chain = (await create(request)).cert_chain
        leaf = x509.load_pem_x509_certificate(chain[0].encode())
        (record,) = [each for each in caplog.records if each.name == "mesh_ca.audit"]
        assert vars(record)["serial"] == f"{leaf.serial_number:x}"
        (pid,) = signers.process_ids
        os.kill(pid, signal.SIGSTOP)
        waiting = create(request)
        await until(lambda: signers.unanswered == 1, what="the call")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await create(request)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        os.kill(pid, signal.SIGCONT)
        assert (await waiting).cert_chain
    assert len([each for each in caplog.records if each.name == "mesh_ca.audit"]) == 2


async def test_callers_that_hang_up_leave_nothing_behind(authority: Authority) -> None:
    request = IstioCertificateRequest(csr=CSR.decode())
    async with (
        signer_processes(authority, count=1) as signers,
        served(authority, signers) as create,
    ):
        calls = [create(request) for _ in range(100)]
        await until(lambda: signers.unanswered > 0, what="calls")
        for call in calls:
            call.cancel()
        await until(lambda: signers.unanswered == 0, what="no call is left")
        assert (await create(request)).cert_chain
