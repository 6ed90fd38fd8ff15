"""Operators with sub-graphs (`torch.cond`, `while_loop`, `map`, `scan`, ...) in a trace.

Torch gives such operators to Dynamo when they are called outside of it. While a function is traced here, each
function that such an operator takes is traced as a part instead: a sub-graph over the operator's tensors, then over the
values of the trace around it that the function uses (`lifted`). Gradients are operators of the same kind over the
functions' gradients.
"""
