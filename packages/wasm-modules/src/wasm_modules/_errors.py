"""The errors of fetching a module, and of settings."""

from __future__ import annotations

from enum import StrEnum


class FetchResult(StrEnum):
    """How a fetch ended, as the metric `wasm_remote_fetch_count` has it."""

    SUCCESS = "success"
    DOWNLOAD_FAILURE = "download_failure"
    MANIFEST_FAILURE = "manifest_failure"
    CHECKSUM_MISMATCHED = "checksum_mismatched"
    FETCH_FAILURE = "fetch_failure"


class WasmError(Exception):
    """Root of every error this package raises."""


class ConfigError(WasmError):
    """A setting that can never work; names the setting and what would be right."""


class FetchError(WasmError):
    """A module cannot be had; the message has the source and the reason, and no secret."""

    def __init__(self, text: str, *, result: FetchResult = FetchResult.FETCH_FAILURE) -> None:
        super().__init__(text)
        self.result = result


class DownloadError(FetchError):
    """A server's answer is not what was asked for; the same request need not be sent again."""

    def __init__(self, text: str) -> None:
        super().__init__(text, result=FetchResult.DOWNLOAD_FAILURE)


class PassingFailure(DownloadError):
    """A connection or a server failed; it may work the next time."""


class StillFetching(DownloadError):
    """The module is not there in time; its fetch goes on."""


class ChecksumMismatch(FetchError):
    """The bytes that came have another checksum than was asked for."""

    def __init__(self, text: str) -> None:
        super().__init__(text, result=FetchResult.CHECKSUM_MISMATCHED)


class ManifestError(FetchError):
    """The manifest of an image cannot be used."""

    def __init__(self, text: str) -> None:
        super().__init__(text, result=FetchResult.MANIFEST_FAILURE)
