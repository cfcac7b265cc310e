"""The options of the `certclient` command, and the configuration they give."""

import argparse
import json
import re
import shlex
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

from certclient._errors import CertClientError, InvalidConfig
from certclient.authorities._istio_ca_config import IstioCaConfig
from certclient.authorities._workload_api import WorkloadApiConfig
from certclient.command._documents import (
    COMPLETION,
    DOCS,
    SUMMARIES,
    add_completion,
    add_docs,
    print_documents,
)
from certclient.command._documents import EXAMPLES as DOCUMENT_EXAMPLES
from certclient.command._hooks import HookConfig
from certclient.files._files_config import FilesConfig
from certclient.files._output_files import OutputFilesConfig
from certclient.rotation._rotation_config import RotationConfig
from certclient.tls._trust_config import TrustConfig
from certclient.x509._key_types import KeyEncoding, KeyType
from mesh_configfile import DurationError, parse_duration
from mesh_identity import SYSTEM, InvalidSpiffeId, SpiffeId, SystemRoots

_EXIT_CODES = """\
Exit codes:
  0    done (get); stopped by SIGTERM or SIGINT (watch)
  1    no certificate, or not in time, or its files or its hook failed (get)
  2    the options are wrong
  130  interrupted by Ctrl-C (get)
"""
_VERSION = "version"
_EXAMPLES = {
    "get": """\
  certclient get --ca istiod:15012 --ca-root root.pem --token token \\
      --spiffe-id spiffe://cluster.local/ns/shop/sa/cart --output ./certs
  certclient get --workload-api unix:///run/spire/agent.sock -o json
""",
    "watch": """\
  certclient watch --files /etc/certs --signal HUP --pid-file /run/app.pid
  certclient watch --workload-api unix:///run/spire/agent.sock --output ./certs
""",
    _VERSION: """\
  certclient version -o json
""",
}


class _Parser(argparse.ArgumentParser):
    """A parser that answers a mistake in one sentence, as all commands of this project do."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"certclient: {message} (see {self.prog} --help)\n")


class _ShowVersion(argparse.Action):
    """Shows the version; looking it up is not quick, so that no other call does."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(f"certclient {_installed_version()}")  # noqa: T201 - what a command does
        parser.exit()


def _installed_version() -> str:
    from importlib.metadata import version

    return version("certclient")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthoritySource:
    """Certificates from the Istio CA API."""

    authority: IstioCaConfig
    rotation: RotationConfig


Source = AuthoritySource | FilesConfig | WorkloadApiConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandConfig:
    """The whole configuration of one run of the command.

    waits: whether `get` waits until the timeout for an issuer that fails.
    """

    once: bool
    source: Source
    trust: TrustConfig
    output: OutputFilesConfig | None
    hook: HookConfig
    as_json: bool
    timeout_s: float
    waits: bool
    log_level: str


def parse(arguments: Sequence[str], environ: Mapping[str, str]) -> CommandConfig:
    """Read the command line.

    Exits the program with 2 and one sentence if it is wrong, and with 0 after what was only to be
    shown: the help, the version, completion, the manual. Raises CommandError if that fails.
    """
    parser = _parser()
    options = parser.parse_args(arguments or ["--help"])
    if options.command == _VERSION:
        _print_version(as_json=options.form == "json")
        parser.exit()
    if options.command in SUMMARIES:
        print_documents(parser, options)
        parser.exit()
    try:
        return _config(options, environ)
    except (CertClientError, InvalidSpiffeId) as error:
        parser.exit(2, f"certclient: {error}\n")


def _config(options: argparse.Namespace, environ: Mapping[str, str]) -> CommandConfig:
    if (options.signal is None) != (options.pid_file is None):
        raise InvalidConfig(
            "--signal and --pid-file go together: the file has the number of the process"
        )
    return CommandConfig(
        once=options.command == "get",
        source=_source(options, environ),
        trust=TrustConfig(anchors_path=options.trust_anchors, crl_path=options.crl),
        output=None
        if options.output is None
        else OutputFilesConfig(directory=options.output, mode=options.mode, atomic=options.atomic),
        hook=HookConfig(
            command=_words(options.on_renew), signal=options.signal, pid_file=options.pid_file
        ),
        as_json=options.json or options.form == "json",
        timeout_s=options.timeout.total_seconds(),
        # Files and a workload API may become available at any time; an authority is expected to be.
        waits=options.wait or options.ca is None,
        log_level=options.log_level,
    )


def _source(options: argparse.Namespace, environ: Mapping[str, str]) -> Source:
    chosen = [
        option
        for option, value in (
            ("--ca", options.ca),
            ("--files", options.files),
            ("--workload-api", options.workload_api),
        )
        if value is not None
    ]
    if len(chosen) > 1:
        raise InvalidConfig(f"{' and '.join(chosen)} name two issuers, only one can be used")
    if options.ca is not None:
        return _authority_source(options)
    if options.files is not None:
        return FilesConfig.in_directory(options.files)
    address = options.workload_api or environ.get("SPIFFE_ENDPOINT_SOCKET")
    if not address:
        raise InvalidConfig(
            "an issuer is needed: --ca HOST:PORT, --files DIRECTORY or --workload-api ADDRESS "
            "(or SPIFFE_ENDPOINT_SOCKET in the environment)"
        )
    spiffe_id = SpiffeId.parse(options.spiffe_id) if options.spiffe_id else None
    return WorkloadApiConfig(address=address, spiffe_id=spiffe_id, hint=options.hint)


def _authority_source(options: argparse.Namespace) -> AuthoritySource:
    if not options.spiffe_id:
        raise InvalidConfig("--ca needs --spiffe-id, the identity to ask for")
    host, _, port = options.ca.rpartition(":")
    if not host or not port.isdigit():
        raise InvalidConfig(f"--ca {options.ca!r} must be HOST:PORT")
    if options.plaintext and options.ca_root:
        raise InvalidConfig("--plaintext and --ca-root exclude each other")
    if not options.plaintext and not options.ca_root:
        raise InvalidConfig("--ca needs --ca-root FILE or SYSTEM (or --plaintext)")
    return AuthoritySource(
        authority=IstioCaConfig(
            address=options.ca,
            root_certificate=_root_certificate(options.ca_root),
            server_name=options.server_name,
            server_name_setting="--server-name",
            token_path=options.token,
            client_certificate_path=options.client_certificate,
            client_key_path=options.client_key,
            cluster_id=options.cluster_id,
            headers=tuple(map(_header, options.header)),
            cert_signer=options.cert_signer,
            timeout_s=options.call_timeout.total_seconds(),
        ),
        rotation=RotationConfig(
            spiffe_id=SpiffeId.parse(options.spiffe_id),
            key_type=options.key_type,
            key_encoding=options.key_encoding,
            lifetime=options.lifetime,
            grace_ratio=options.grace_ratio,
        ),
    )


def _root_certificate(chosen: str | None) -> Path | SystemRoots | None:
    """Return the file of the roots, or SYSTEM; None for plaintext."""
    if chosen is None:
        return None
    return SYSTEM if chosen == "SYSTEM" else Path(chosen)


def _header(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidConfig(f"--header {text!r} must be NAME=VALUE")
    return name, value


def _words(command: str | None) -> tuple[str, ...]:
    if command is None:
        return ()
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise InvalidConfig(f"--on-renew {command!r}: {error}") from error
    if not words:
        raise InvalidConfig("--on-renew is empty, a command is needed")
    return words


def _duration(text: str) -> timedelta:
    try:
        return parse_duration(text, allow_days=True)
    except DurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _mode(text: str) -> int:
    if not re.fullmatch(r"0?[0-7]{3}", text):
        raise argparse.ArgumentTypeError(f"{text!r} must be three octal digits, as 0600")
    return int(text, 8)


def _signal(text: str) -> signal.Signals:
    try:
        return signal.Signals[f"SIG{text.upper().removeprefix('SIG')}"]
    except KeyError:
        raise argparse.ArgumentTypeError(f"{text!r} is no signal; HUP is one") from None


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="certclient",
        description="Gets a workload's certificate, keeps it fresh, and notifies its users.",
        epilog=_epilog("".join(_EXAMPLES.values())),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_ShowVersion, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text, parts in (
        ("get", "get one certificate and end", (_add_source, _add_authority, _add_output)),
        (
            "watch",
            "keep the certificate fresh until stopped",
            (_add_source, _add_authority, _add_output),
        ),
        (_VERSION, "show the installed version", (_add_version,)),
        (COMPLETION, SUMMARIES[COMPLETION], (add_completion,)),
        (DOCS, SUMMARIES[DOCS], (add_docs,)),
    ):
        command = commands.add_parser(
            name,
            help=text,
            description=f"{text[0].upper()}{text[1:]}.",
            epilog=_epilog((_EXAMPLES | DOCUMENT_EXAMPLES)[name]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for add in parts:
            add(command)
    return parser


def _epilog(examples: str) -> str:
    return f"Examples:\n{examples}\n{_EXIT_CODES}"


def _add_version(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output", "-o", dest="form", choices=("json",), help="a form for programs"
    )


def _print_version(*, as_json: bool) -> None:
    found = _installed_version()
    print(json.dumps({"version": found}) if as_json else found)  # noqa: T201 - what a command does


def _add_source(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("issuer, one of")
    group.add_argument("--ca", metavar="HOST:PORT", help="an Istio CA API")
    group.add_argument(
        "--files",
        type=Path,
        metavar="DIRECTORY",
        help="cert-chain.pem, key.pem and root-cert.pem that another program renews",
    )
    group.add_argument(
        "--workload-api",
        metavar="ADDRESS",
        help="a SPIFFE Workload API, as unix:///run/spire/agent.sock; $SPIFFE_ENDPOINT_SOCKET",
    )
    group = parser.add_argument_group("identity and trust")
    group.add_argument("--spiffe-id", metavar="URI", help="the identity to request, or to select")
    group.add_argument("--hint", help="select the workload API's identity of this hint")
    group.add_argument(
        "--trust-anchors", type=Path, metavar="FILE", help="further roots for the bundle"
    )
    group.add_argument("--crl", type=Path, metavar="FILE", help="revocation lists")


def _add_authority(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("with --ca")
    group.add_argument(
        "--ca-root",
        metavar="FILE|SYSTEM",
        help="roots the server is checked by; SYSTEM: the machine's, $SSL_CERT_FILE, $SSL_CERT_DIR",
    )
    group.add_argument(
        "--plaintext", action="store_true", help="no TLS: the token travels in the clear"
    )
    group.add_argument("--server-name", metavar="NAME", help="the name in its certificate")
    group.add_argument("--token", type=Path, metavar="FILE", help="a bearer token")
    group.add_argument("--client-certificate", type=Path, metavar="FILE")
    group.add_argument("--client-key", type=Path, metavar="FILE")
    group.add_argument("--cluster-id", default="", metavar="ID")
    group.add_argument("--header", action="append", default=[], metavar="NAME=VALUE")
    group.add_argument("--cert-signer", default="", metavar="NAME")
    group.add_argument(
        "--call-timeout",
        type=_duration,
        default=timedelta(seconds=10),
        help="how long one call may take, 10s",
    )
    group.add_argument(
        "--lifetime",
        type=_duration,
        default=timedelta(hours=24),
        help="the lifetime to request, 24h",
    )
    group.add_argument(
        "--grace-ratio",
        type=float,
        default=0.5,
        help="the part of the lifetime that is left at renewal, 0.5",
    )
    group.add_argument("--key-type", type=KeyType, choices=list(KeyType), default=KeyType.P256)
    group.add_argument(
        "--key-encoding", type=KeyEncoding, choices=list(KeyEncoding), default=KeyEncoding.PKCS8
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument(
        "--output",
        type=Path,
        metavar="DIRECTORY",
        help="write cert-chain.pem, key.pem and root-cert.pem there",
    )
    group.add_argument("--mode", type=_mode, default=0o600, help="of each file, 0600")
    group.add_argument(
        "--atomic", action="store_true", help="the three files change at one moment, through links"
    )
    group.add_argument("--on-renew", metavar="COMMAND", help="run it after each certificate")
    group.add_argument("--signal", type=_signal, metavar="NAME", help="send it, as HUP ...")
    group.add_argument(
        "--pid-file", type=Path, metavar="FILE", help="... to the process that this file names"
    )
    group.add_argument("--json", action="store_true", help="print each event as a line of JSON")
    group.add_argument("-o", dest="form", choices=("json",), help="the same as --json")
    group.add_argument(
        "--timeout",
        type=_duration,
        default=timedelta(seconds=60),
        help="how long get waits at most, 60s",
    )
    group.add_argument(
        "--wait",
        action="store_true",
        help="get retries until --timeout if the CA can't be reached, instead of failing at once",
    )
    group.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), default="error"
    )
