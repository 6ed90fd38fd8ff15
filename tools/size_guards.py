#!/usr/bin/env python3
"""Prints how many guards on symbolic sizes the operators of PyTorch's operator database record, here and under torch's
FakeTensorMode, and the calls with more guards here. See docs/shapes.md."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    sys.path[:0] = [str(ROOT / "python"), str(ROOT)]
    import torch

    from tests.python.fake import peer_guards

    torch._logging.set_logs(all=logging.CRITICAL)
    torch.set_num_threads(1)
    found = peer_guards.count()
    total = {name: sum(getattr(counts, name) for counts in found.values()) for name in ("calls", "ours", "theirs")}
    print(f"{len(found)} operators, {total['calls']} calls: {total['ours']} guards, torch {total['theirs']}\n")
    print("| operator | calls | guards | torch | one of the guards |\n|---|---:|---:|---:|---|")
    more = peer_guards.more_than_torch(found)
    for name, counts in sorted(more.items()):
        print(f"| `{name}` | {counts.calls} | {counts.ours} | {counts.theirs} | `{counts.worst[0][0]}` |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
