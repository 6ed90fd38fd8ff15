"""`stator.counters`: counts of events by group and name, since the last reset. The extension stores them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from . import _C


class Count(int):
    """The value of a counter as it was read. `counters[group][name] += n` adds in the extension, so that no addition of
    another thread is lost between reading and writing."""

    _counter: str

    def __iadd__(self, by: int) -> Count:
        made = _made(self._counter, _C.count(self._counter, int(by)))
        made._is_stored = True
        return made

    def __isub__(self, by: int) -> Count:
        return self.__iadd__(-by)

    _is_stored = False


def _made(counter: str, value: int) -> Count:
    made = Count(value)
    made._counter = counter
    return made


class Group(MutableMapping[str, int]):
    """The counters of one group. One that does not exist reads as 0."""

    def __init__(self, name: str):
        self._name = name

    def _full(self, name: str) -> str:
        return f"{self._name}.{name}"

    def __getitem__(self, name: str) -> int:
        return _made(self._full(name), _C.count_of(self._full(name)))

    def __setitem__(self, name: str, value: int) -> None:
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"a counter holds an int, not {type(value).__name__}")
        if isinstance(value, Count) and value._is_stored and value._counter == self._full(name):
            return  # `+=` has added it
        _C.set_count(self._full(name), int(value))

    def add(self, name: str, by: int = 1) -> int:
        """Adds, and returns the new value."""
        return _C.count(self._full(name), by)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        _C.set_count(self._full(name), 0)

    def _all(self) -> dict[str, int]:
        return _C.counters().get(self._name, {})

    def __contains__(self, name: object) -> bool:
        return name in self._all()

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def total(self) -> int:
        """The sum of all counters of the group."""
        return sum(self._all().values())

    def most_common(self, count: int | None = None) -> list[tuple[str, int]]:
        """Names and counts, the largest first."""
        return sorted(self._all().items(), key=lambda row: -row[1])[:count]

    def clear(self) -> None:
        _C.reset_counts(self._name)

    def __eq__(self, other: object) -> bool:
        return self._all() == (other._all() if isinstance(other, Group) else other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._all())


class Counters(Mapping[str, Group]):
    """The class of `stator.counters`, its only instance: a mapping of groups. Calling it returns a plain dict."""

    def __call__(self) -> dict[str, Any]:
        return _C.counters()

    def __getitem__(self, group: str) -> Group:
        if "." in group:
            raise KeyError(f"{group!r}: the name of a group has no dot")
        return Group(group)

    def __iter__(self) -> Iterator[str]:
        return iter(_C.counters())

    def __contains__(self, group: object) -> bool:
        return group in _C.counters()

    def __len__(self) -> int:
        return len(_C.counters())

    def clear(self) -> None:
        """Sets all counters to 0."""
        _C.reset_counts("")

    def __repr__(self) -> str:
        lines = []
        for name, values in _C.counters().items():
            lines.append(f"{name}:")
            lines += [f"  {key}: {count}" for key, count in values.items()]
        return "\n".join(lines)


counters = Counters()
