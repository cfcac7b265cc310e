"""Value classes that cost little to define: frozen, compared by their fields.

The command runs before each pod's containers, and `dataclasses` takes longer to load, and a
millisecond for each class, than all that the command does before it asks the kernel. To a type
checker, and to `dataclasses.replace`, `fields` and `asdict`, these are dataclasses.
"""

from __future__ import annotations

__all__ = ["field", "positional_value", "replace", "value"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import field, replace
    from typing import TypeVar, dataclass_transform

    T = TypeVar("T")

    @dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
    def value(cls: type[T]) -> type[T]:
        """Make a value class of the annotated names, given by keyword."""

    @dataclass_transform(frozen_default=True, field_specifiers=(field,))
    def positional_value(cls: type[T]) -> type[T]:
        """Make a value class whose fields may be given by place."""

else:

    class field:  # noqa: N801 - it stands for `dataclasses.field`
        """How a field differs from others."""

        def __init__(self, *, default=..., default_factory=None, repr=True, compare=True) -> None:
            self.default = default
            self.default_factory = default_factory
            self.repr = repr
            self.compare = compare

    _PLAIN = field()

    def value(cls):
        """Make a value class of the annotated names."""
        kinds = {}
        for name in cls.__annotations__:
            kind = cls.__dict__.get(name, ...)
            if isinstance(kind, field):
                kinds[name] = kind
                if kind.default is ...:
                    delattr(cls, name)
                else:
                    setattr(cls, name, kind.default)
            else:
                kinds[name] = _PLAIN if kind is ... else field(default=kind)
        cls._kinds = kinds
        cls._required = frozenset(
            name
            for name, kind in kinds.items()
            if kind.default is ... and kind.default_factory is None
        )
        cls._factories = tuple(
            (name, kind.default_factory)
            for name, kind in kinds.items()
            if kind.default_factory is not None
        )
        cls._by_fields = tuple(name for name, kind in kinds.items() if kind.compare)
        cls.__match_args__ = tuple(kinds)
        cls.__dataclass_fields__ = _Fields()
        for method in (__init__, __setattr__, __delattr__, __eq__, __hash__, __repr__):
            setattr(cls, method.__name__, method)
        return cls

    positional_value = value

    def __init__(self, *by_place, **given) -> None:  # noqa: N807 - these become methods
        kinds = self._kinds
        if by_place:
            names = list(kinds)[: len(by_place)]
            if len(names) < len(by_place) or not given.keys().isdisjoint(names):
                raise TypeError(f"{type(self).__name__} has the fields {', '.join(kinds)}")
            given = {**dict(zip(names, by_place, strict=True)), **given}
        if not self._required <= given.keys() or not given.keys() <= kinds.keys():
            raise TypeError(
                f"{type(self).__name__} has the fields {', '.join(kinds)}, and of these "
                f"{', '.join(sorted(self._required)) or 'none'} must be given: "
                f"not {', '.join(given)}"
            )
        for name, factory in self._factories:
            if name not in given:
                given[name] = factory()
        self.__dict__.update(given)

    def __setattr__(self, name, _) -> None:  # noqa: N807
        raise AttributeError(f"{type(self).__name__} is frozen: {name} can't be set")

    def __delattr__(self, name) -> None:  # noqa: N807
        raise AttributeError(f"{type(self).__name__} is frozen: {name} can't be deleted")

    def _compared(self):
        return tuple([getattr(self, name) for name in self._by_fields])

    def __eq__(self, other):  # noqa: N807
        return _compared(self) == _compared(other) if type(self) is type(other) else NotImplemented

    def __hash__(self):  # noqa: N807
        return hash(_compared(self))

    def __repr__(self) -> str:  # noqa: N807
        shown = [name for name, kind in self._kinds.items() if kind.repr]
        values = ", ".join([f"{name}={getattr(self, name)!r}" for name in shown])
        return f"{type(self).__qualname__}({values})"

    def replace(old, /, **changes):
        """Return a value with some fields changed."""
        return type(old)(**{**{name: getattr(old, name) for name in old._kinds}, **changes})

    class _Fields:
        """The fields as `dataclasses` has them, made when somebody asks."""

        def __get__(self, _, owner):
            import dataclasses

            built = dataclasses.make_dataclass(
                owner.__name__,
                [
                    (
                        name,
                        owner.__annotations__[name],
                        dataclasses.field(
                            **({} if kind.default is ... else {"default": kind.default}),
                            **(
                                {"default_factory": kind.default_factory}
                                if kind.default_factory
                                else {}
                            ),
                            repr=kind.repr,
                            compare=kind.compare,
                        ),
                    )
                    for name, kind in owner._kinds.items()
                ],
                kw_only=True,
            )
            owner.__dataclass_fields__ = built.__dataclass_fields__
            return owner.__dataclass_fields__
