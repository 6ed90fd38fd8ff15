"""What torch's compilers log about an operator that they cannot trace."""

from __future__ import annotations

import logging
import threading
from types import TracebackType

_FAKES = logging.getLogger("torch._subclasses.fake_tensor")


class held(logging.Filter):
    """While the block runs, errors that torch's fake tensors log on this thread are held back. They are logged at its
    end, unless `drop` was called: then the error that they tell of was handled."""

    def __init__(self) -> None:
        super().__init__()
        self._records: list[logging.LogRecord] = []
        self._thread = threading.get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.thread != self._thread:
            return True
        self._records.append(record)
        return False

    def drop(self) -> None:
        self._records.clear()

    def __enter__(self) -> held:
        _FAKES.addFilter(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _FAKES.removeFilter(self)
        for record in self._records:
            _FAKES.handle(record)
