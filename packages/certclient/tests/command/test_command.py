"""The command as its users run it: a process, its output, its exit code."""

import asyncio
import json
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from certclient import Certificate, FilesConfig, OutputFilesConfig, write_files
from certclient.testing import FakeAuthority, fake_istio_ca, fake_workload_api

Issue = Callable[[], Awaitable[Certificate]]
CART = "spiffe://cluster.local/ns/shop/sa/cart"
COMMAND = (sys.executable, "-m", "certclient")


async def run(*arguments: str | Path, env: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **(env or {})},
    )
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


@asynccontextmanager
async def watching(*arguments: str | Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `watch --json`; in the end it must obey SIGTERM with 0."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "watch", "--json", *arguments, stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(60):
            yield process
            process.send_signal(signal.SIGTERM)
            assert process.stdout is not None
            await process.stdout.read()
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def event(process: asyncio.subprocess.Process, kind: str) -> dict[str, Any]:
    assert process.stdout is not None
    while line := await process.stdout.readline():
        facts: dict[str, Any] = json.loads(line)
        if facts["event"] == kind:
            return facts
    raise AssertionError(f"the command ended before {kind}")


def from_ca(address: str, *more: str | Path) -> tuple[str | Path, ...]:
    return ("--ca", address, "--plaintext", "--spiffe-id", CART, *more)


async def test_get_writes_files_and_says_what_it_got(
    tmp_path: Path, real_authority: FakeAuthority
) -> None:
    async with fake_istio_ca(real_authority) as ca:
        code, out, err = await run(
            "get", *from_ca(ca.address), "--output", tmp_path / "certs", "--key-type", "p384"
        )
    assert (code, err) == (0, "")
    assert out.startswith(f"{CART} serial ")
    assert out.rstrip().endswith(" UTC")
    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "certs").iterdir()
    }
    assert modes == dict.fromkeys(("cert-chain.pem", "key.pem", "root-cert.pem"), 0o600)


async def test_get_sends_the_token_headers_and_lifetime(
    tmp_path: Path, real_authority: FakeAuthority
) -> None:
    (tmp_path / "token").write_text("the-token\n")
    async with fake_istio_ca(real_authority) as ca:
        code, out, _ = await run(
            *("get", "--json", *from_ca(ca.address), "--token", tmp_path / "token"),
            *("--cluster-id", "east", "--header", "x-extra=1", "--lifetime", "30m"),
        )
    assert code == 0
    assert json.loads(out)["spiffe_id"] == CART
    assert (
        ca.metadata[0].items()
        >= {
            "authorization": "Bearer the-token",
            "clusterid": "east",
            "x-extra": "1",
        }.items()
    )
    assert real_authority.requests[0].lifetime == timedelta(minutes=30)


async def test_a_lifetime_may_be_given_in_days(real_authority: FakeAuthority) -> None:
    async with fake_istio_ca(real_authority) as ca:
        code, *_ = await run("get", *from_ca(ca.address), "--lifetime", "2d")
    assert code == 0
    assert real_authority.requests[0].lifetime == timedelta(days=2)


@pytest.mark.slow
async def test_get_that_times_out_between_two_tries_has_the_reason_of_the_first(
    real_authority: FakeAuthority,
) -> None:
    async with fake_istio_ca(real_authority) as ca:
        ca.answers = [grpc.StatusCode.UNAVAILABLE, None]
        code, _, err = await run("get", *from_ca(ca.address), "--timeout", "5s")
    assert code == 1
    assert err == (
        f"certclient: no certificate within 5 s: {ca.address} answered UNAVAILABLE: as told\n"
    )


async def test_get_takes_certificates_from_files_and_from_a_workload_api(
    tmp_path: Path, socket_dir: Path, issue: Issue
) -> None:
    certificate = await issue()
    write_files(OutputFilesConfig(directory=tmp_path), certificate)
    code, out, _ = await run("get", "--json", "--files", tmp_path)
    assert (code, json.loads(out)["serial"]) == (0, f"{certificate.serial:x}")
    address = f"unix://{socket_dir}/api"
    async with fake_workload_api(address) as api:
        api.serve(certificate)
        for arguments, env in (
            (("--workload-api", address), {}),
            ((), {"SPIFFE_ENDPOINT_SOCKET": address}),
        ):
            code, out, _ = await run("get", "--json", *arguments, env=env)
            assert (code, json.loads(out)["serial"]) == (0, f"{certificate.serial:x}")


@pytest.mark.parametrize("option", ["--trust-anchors", "--crl"])
async def test_get_without_the_roots_or_lists_that_it_shall_use_says_why_and_writes_nothing(
    tmp_path: Path, real_authority: FakeAuthority, option: str
) -> None:
    os.mkfifo(fifo := tmp_path / "fifo")
    for path, why in (
        (fifo, "it is a FIFO, a regular file is needed"),
        (tmp_path / "missing", "does not exist"),
    ):
        async with fake_istio_ca(real_authority) as ca:
            code, out, err = await run(
                "get", *from_ca(ca.address), option, path, "--output", tmp_path / "certs"
            )
        assert (code, out) == (1, "")
        assert str(path) in err
        assert why in err
        assert not (tmp_path / "certs").exists()


@pytest.mark.slow
async def test_get_without_a_certificate_says_why_and_exits_with_1(
    tmp_path: Path, real_authority: FakeAuthority
) -> None:
    async with fake_istio_ca(real_authority) as ca:
        ca.answers = [grpc.StatusCode.PERMISSION_DENIED] * 9
        code, out, err = await run("get", *from_ca(ca.address))
        assert (code, out) == (1, "")
        assert len(ca.asked_at) == 1
        assert err == (
            f"certclient: no certificate: {ca.address} answered PERMISSION_DENIED: as told "
            "(no token was sent)\n"
        )
    code, out, _ = await run("get", "--json", "--files", tmp_path / "no", "--timeout", "8s")
    assert code == 1
    assert json.loads(out)["reason"].startswith("no certificate within 8 s: ")
    assert "does not exist" in json.loads(out)["reason"]


async def test_get_that_cannot_write_says_where_and_exits_with_1(
    tmp_path: Path, issue: Issue
) -> None:
    write_files(OutputFilesConfig(directory=tmp_path), await issue())
    (tmp_path / "in-the-way").write_text("a file")
    code, out, err = await run("get", "--files", tmp_path, "--output", tmp_path / "in-the-way")
    assert (code, out) == (1, "")
    assert err == f"certclient: {tmp_path}/in-the-way cannot be written: File exists\n"


async def test_get_that_is_stopped_says_so(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(*COMMAND, "get", "--files", tmp_path / "no", "--log-level", "warning"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    await process.stderr.readline()  # it is up: it has logged that the files are missing
    process.send_signal(signal.SIGTERM)
    _, err = await process.communicate()
    assert process.returncode == 1
    assert "before there was a certificate" in err.decode()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "an issuer is needed"),
        (("--ca", "x:1"), "--ca needs --spiffe-id"),
        (("--ca", "x", "--spiffe-id", CART), "must be HOST:PORT"),
        (("--ca", "x:1", "--spiffe-id", CART), "--ca needs --ca-root"),
        (("--ca", "x:1", "--spiffe-id", "spiffe://x"), "--ca needs --ca-root"),
        (("--ca", "x:1", "--spiffe-id", "y", "--plaintext"), "is not of the form spiffe://"),
        (("--ca", "x:1", "--files", "y"), "--ca and --files name two issuers"),
        (("--files", "x", "--signal", "HUP"), "--signal and --pid-file go together"),
        (("--files", "x", "--signal", "NO", "--pid-file", "x"), "'NO' is no signal"),
        (("--files", "x", "--on-renew", "'"), "--on-renew"),
        (("--files", "x", "--on-renew", ""), "--on-renew is empty"),
        (("--files", "x", "--mode", "99"), "three octal digits"),
        (("--files", "x", "--timeout", "soon"), "is not a duration such as 24h"),
        (("--workload-api", "/run/x"), "must be unix:///PATH or tcp://IP:PORT"),
        (("--ca", "x:1", "--spiffe-id", CART, "--plaintext", "--header", "a"), "NAME=VALUE"),
    ],
)
async def test_wrong_options_are_reported_in_a_sentence_and_exit_with_2(
    arguments: tuple[str, ...], sentence: str
) -> None:
    code, out, err = await run("get", *arguments, env={"SPIFFE_ENDPOINT_SOCKET": ""})
    assert (code, out) == (2, "")
    assert sentence in err
    assert "Traceback" not in err


async def test_watch_renews_files_and_runs_the_command_each_time(
    tmp_path: Path, real_authority: FakeAuthority
) -> None:
    script = tmp_path / "hook.sh"
    script.write_text(
        '#!/bin/sh\necho "$CERTCLIENT_SPIFFE_ID $CERTCLIENT_SERIAL $CERTCLIENT_DIRECTORY" >> "$1"\n'
    )
    script.chmod(0o755)
    certs, record = tmp_path / "certs", tmp_path / "record with spaces"
    async with (
        fake_istio_ca(real_authority) as ca,
        watching(
            *from_ca(ca.address, "--lifetime", "4s", "--output", certs, "--atomic"),
            *("--on-renew", f"{script} '{record}'"),
        ) as process,
    ):
        serials = [(await event(process, "certificate"))["serial"] for _ in range(3)]
    assert len(set(serials)) == 3
    lines = record.read_text().splitlines()
    assert lines[: len(serials)] == [f"{CART} {serial} {certs}" for serial in serials][: len(lines)]
    assert len(lines) >= 2
    assert (certs / "cert-chain.pem").is_symlink()


async def test_watch_sends_the_signal_to_the_process_of_the_pid_file(
    tmp_path: Path, issue: Issue
) -> None:
    write_files(OutputFilesConfig(directory=tmp_path), await issue())
    signalled = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, signalled.set)
    (tmp_path / "pid").write_text(f"{os.getpid()}\n")
    options = ("--signal", "USR1", "--pid-file", tmp_path / "pid")
    try:
        async with watching("--files", tmp_path, *options) as process:
            for _ in range(2):
                await event(process, "certificate")
                await signalled.wait()
                signalled.clear()
                write_files(OutputFilesConfig(directory=tmp_path), await issue())
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGUSR1)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--on-renew", "/no/such/command"), "/no/such/command cannot be run"),
        (("--on-renew", "false"), "false exited with 1"),
        (("--signal", "HUP", "--pid-file", "/no/such/pid"), "pid file /no/such/pid cannot be read"),
    ],
)
async def test_a_hook_that_fails_is_reported_and_watch_goes_on(
    tmp_path: Path, issue: Issue, options: tuple[str, ...], reason: str
) -> None:
    write_files(OutputFilesConfig(directory=tmp_path), await issue())
    async with watching("--files", tmp_path, *options) as process:
        for _ in range(2):
            assert reason in (await event(process, "hook failed"))["reason"]
            write_files(OutputFilesConfig(directory=tmp_path), await issue())
    code, _, err = await run("get", "--files", tmp_path, *options)
    assert code == 1
    assert reason in err


async def test_watch_stays_while_the_authority_is_away(
    real_authority: FakeAuthority,
) -> None:
    async with fake_istio_ca(real_authority) as ca:
        ca.answers = [grpc.StatusCode.UNAVAILABLE] * 5
        async with watching(*from_ca(ca.address)) as process:
            assert "UNAVAILABLE" in (await event(process, "error"))["reason"]
            assert (await event(process, "certificate"))["spiffe_id"] == CART


async def test_watch_takes_up_its_own_files_while_the_authority_is_away(
    tmp_path: Path, real_authority: FakeAuthority
) -> None:
    certs = tmp_path / "certs"
    async with fake_istio_ca(real_authority) as ca:
        options = (*from_ca(ca.address), "--output", certs)
        async with watching(*options) as process:
            first = await event(process, "certificate")
    async with watching(*options) as process:
        assert (await event(process, "certificate"))["serial"] == first["serial"]
    (certs / "key.pem").write_text("damaged")
    async with watching(*options) as process:
        assert (await event(process, "not taken up"))["reason"] == "its key cannot be read"


def test_the_files_of_a_directory_have_istios_names(tmp_path: Path) -> None:
    config = FilesConfig.in_directory(tmp_path)
    assert (config.certificate_path.name, config.key_path.name, config.root_path.name) == (
        "cert-chain.pem",
        "key.pem",
        "root-cert.pem",
    )


@pytest.mark.slow
async def test_get_says_at_once_that_the_authority_is_not_there_unless_asked_to_wait(
    free_port: Callable[..., int],
) -> None:
    address = f"127.0.0.1:{free_port('127.0.0.1')}"

    code, out, err = await run("get", *from_ca(address), "--timeout", "24h")

    assert (code, out) == (1, "")
    assert err == f"certclient: no certificate: cannot reach {address}: connection refused\n"
    *_, err = await run("get", *from_ca(address), "--wait", "--timeout", "8s")
    assert err.startswith("certclient: no certificate within 8 s: cannot reach")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nope",), "invalid choice: 'nope'"),
        (("get", "--nope"), "unrecognized arguments: --nope (see certclient --help)"),
        (("get", "--timeout", "soon"), "(see certclient get --help)"),
        (("get", "-o", "xml"), "invalid choice: 'xml'"),
    ],
)
async def test_a_wrong_call_is_one_sentence(words: tuple[str, ...], sentence: str) -> None:
    code, out, err = await run(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("certclient: ")
    assert sentence in err


async def test_version_and_examples_are_shown() -> None:
    code, out, err = await run("--version")
    assert (code, err) == (0, "")
    assert out.startswith("certclient ")
    number = out.split()[1]
    assert await run("version") == (0, f"{number}\n", "")
    assert json.loads((await run("version", "-o", "json"))[1]) == {"version": number}
    for words in ((), ("get",), ("watch",), ("version",), ("completion",), ("docs",)):
        code, out, err = await run(*words, "--help")
        assert (code, err) == (0, "")
        assert f"\nExamples:\n  {'source <(' if 'completion' in words else ''}certclient" in out
    assert (await run())[1] == (await run("--help"))[1]


async def test_the_manual_and_completion_are_generated_from_the_options(tmp_path: Path) -> None:
    code, out, err = await run("completion", "bash")
    assert (code, err) == (0, "")
    assert "--workload-api" in out
    code, out, err = await run("docs", "--all", "-o", str(tmp_path))
    assert (code, err) == (0, "")
    written = {Path(line).name for line in out.splitlines()}
    assert written == {path.name for path in tmp_path.iterdir()}
    assert written >= {"certclient.1", "certclient-get.1", "certclient.md", "certclient.bash"}
    assert "--spiffe-id" in (await run("docs"))[1]
    (tmp_path / "file").write_text("")
    code, out, err = await run("docs", "-o", str(tmp_path / "file" / "below"))
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("certclient: cannot write to ")


async def test_the_two_spellings_of_json_are_one(real_authority: FakeAuthority) -> None:
    async with fake_istio_ca(real_authority) as ca:
        for spelling in (("--json",), ("-o", "json")):
            _, out, _ = await run("get", *from_ca(ca.address, *spelling))
            assert json.loads(out)["event"] == "certificate"


async def test_ctrl_c_ends_get_as_a_shell_expects(real_authority: FakeAuthority) -> None:
    real_authority.hang()
    async with asyncio.timeout(60), fake_istio_ca(real_authority) as ca:
        process = await asyncio.create_subprocess_exec(
            *COMMAND, "get", *from_ca(ca.address, "--wait"), stderr=asyncio.subprocess.PIPE
        )
        await ca.asked.wait()
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
    assert process.returncode == 130
    assert b"stopped by SIGINT before there was a certificate" in err
