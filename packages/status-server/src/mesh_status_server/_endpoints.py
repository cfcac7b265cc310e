"""Paths and what answers them: who may ask, by which method, and the answer to a wrong request."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import NamedTuple

from mesh_status_server.http._messages import Handler, Reply, Request, Response


class Endpoint(NamedTuple):
    """An answer at a path.

    methods: those it takes; GET stands for HEAD too.
    loopback_only: callers on other machines get 403, and so do web pages that a browser on this one
    shows.
    """

    answer: Handler
    methods: tuple[str, ...] = ("GET",)
    loopback_only: bool = False


class Endpoints:
    """A handler by exact paths, and by beginnings of paths for what no exact path takes.

    Unknown paths, callers and methods get 404, 403 and 405.
    """

    def __init__(
        self, paths: Mapping[str, Endpoint], *, beginnings: Mapping[str, Endpoint] | None = None
    ) -> None:
        self._paths = dict(paths)
        self._beginnings = dict(beginnings or {})

    async def __call__(self, request: Request) -> Reply:
        endpoint = self._paths.get(request.path) or self._begun_with(request.path)
        if endpoint is None:
            known = ", ".join([*self._paths, *(f"{each}..." for each in self._beginnings)])
            return Response.text(f"no such path; there are {known}\n", HTTPStatus.NOT_FOUND)
        if endpoint.loopback_only and (refused := request.local_page_refusal()) is not None:
            return refused
        method = "GET" if request.method == "HEAD" else request.method
        if method not in endpoint.methods:
            return Response(
                status=HTTPStatus.METHOD_NOT_ALLOWED,
                body=f"use {' or '.join(endpoint.methods)}\n".encode(),
                headers={"allow": ", ".join(endpoint.methods)},
            )
        return await endpoint.answer(request)

    def _begun_with(self, path: str) -> Endpoint | None:
        return next(
            (found for each, found in self._beginnings.items() if path.startswith(each)), None
        )
