"""A lock that works in the child of a fork; core/base/fork_safe.h has those of C++."""

from __future__ import annotations

import os
import threading


class ForkSafeLock:
    """For short sections. A fork waits for it, so that the child gets a free lock and data that are not half written.

    Every lock of the package is one (tools/check_names.py). They live as long as the process.
    """

    def __init__(self) -> None:
        # Recursive: a garbage collection inside a section may run code that forks.
        self._lock = threading.RLock()
        os.register_at_fork(
            before=self._lock.acquire, after_in_parent=self._lock.release, after_in_child=self._lock.release
        )

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()
