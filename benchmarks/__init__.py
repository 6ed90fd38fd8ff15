"""Stator beside torch.compile. `python -m benchmarks` runs all topics, `python -m benchmarks capture` one."""
