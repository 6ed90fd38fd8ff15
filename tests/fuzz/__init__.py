"""A differential fuzzer: random programs, plain and compiled, must do the same.

`grammar` writes programs, `execute` runs and compares them, `reduce` makes a failing one small. `python -m tests.fuzz`
(`make fuzz`) runs for as long as asked; a bounded run is part of the tests.
"""
