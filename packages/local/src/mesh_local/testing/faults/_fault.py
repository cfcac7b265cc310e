"""A fault, or a rule, that begins when it is asked for and ends when its block does."""

from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Self


class Faults:
    """The faults of a mesh that have begun and not ended, oldest first."""

    def __init__(self) -> None:
        self._active: list[Fault] = []

    @property
    def active(self) -> tuple["Fault", ...]:
        """The faults that have not ended, oldest first."""
        return tuple(self._active)

    def began(self, fault: "Fault") -> None:
        """Keep a fault until it ends."""
        self._active.append(fault)

    def on_end(self, fault: "Fault") -> None:
        """Forget a fault."""
        self._active.remove(fault)


class Fault:
    """The return value of `Mesh.cut` and its like.

    Use it with `async with`, or `await` it and call `end` later.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], AbstractAsyncContextManager[object]],
        *,
        faults: Faults,
        is_moment: bool = False,
    ) -> None:
        self.name = name
        self.is_moment = is_moment
        """Whether it is over by itself, so that a test need not end it."""
        self._make = make
        self._faults = faults
        self._stack: AsyncExitStack | None = None

    def __repr__(self) -> str:
        return f"<{self.name}>"

    async def begin(self) -> Self:
        """Begin; returns when it is so. Raises `FaultError` if it can't be."""
        if self._stack is None:
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(self._make())
                self._stack = stack.pop_all()
            self._faults.began(self)
        return self

    async def end(self) -> None:
        """End it; returns when all is as before. One that has ended already is no mistake."""
        stack, self._stack = self._stack, None
        if stack is not None:
            self._faults.on_end(self)
            await stack.aclose()

    def __await__(self) -> Generator[object, None, Self]:
        return self.begin().__await__()

    async def __aenter__(self) -> Self:
        return await self.begin()

    async def __aexit__(self, *_: object) -> None:
        await self.end()
