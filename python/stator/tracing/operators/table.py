"""The operators with sub-graphs that traces know, by name."""

from __future__ import annotations

from typing import Any

from .conditions import Cond
from .flex import FlexAttention, FlexAttentionBackward
from .loops import WhileLoop, WhileLoopStack
from .plain import Plain, Print, SavedState, WithEffects
from .regions import HintsWrapper, InvokeSubgraph, Region
from .scans import AssociativeScan, Map, Scan

ROWS: dict[str, Any] = {
    "cond": Cond,
    "while_loop": WhileLoop,
    "while_loop_stack_output": WhileLoopStack,
    "map_impl": Map,
    "scan": Scan,
    "associative_scan": AssociativeScan,
    "invoke_subgraph": InvokeSubgraph,
    "strict_mode": Region,
    "hints_wrapper": HintsWrapper,
    "flex_attention": FlexAttention,
    "flex_attention_backward": FlexAttentionBackward,
    "print": Print,
    "run_and_save_rng_state": SavedState,
    "run_with_rng_state": SavedState,
    "out_dtype": Plain,
    "auto_functionalized": Plain,
    "auto_functionalized_v2": Plain,
    "with_effects": WithEffects,
}
