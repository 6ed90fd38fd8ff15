"""A differential fuzzer: random programs must behave the same, plain and compiled.

`grammar` generates programs, `execute` runs and compares them, `reduce` shrinks a failing one. `python -m tests.fuzz`
(`make fuzz`) runs for a given time; a bounded run is part of the tests.
"""
