"""A training loop with three problems that a report names: a graph break in the inner loop, a float that is another one
in each step, and a function that is captured once per object.

    python -m stator run examples/slow_training.py
    python -m stator report stator_trace -o report.html
"""

import torch

import stator


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)

    def forward(self, x):
        for _ in range(2):
            x = self.linear(x).relu()
            print("", end="")  # problem 1: a break in the inner loop
        return x


def scaled(x, rate):
    if rate > 0.5:  # problem 2: the program needs the number, which changes in each step
        return x * rate
    return x / (1 + rate)


class Pool:
    def __init__(self, mode):
        self.mode = mode


def reduce(x, pool):
    return getattr(x, pool.mode)()  # problem 3: each object has a mode of its own


def main(steps=4):
    torch.manual_seed(0)
    model = stator.compile(Block(8))
    scale_step = stator.compile(scaled)
    pooled = stator.compile(reduce)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        loss = pooled(model(torch.randn(4, 8)), Pool(["sum", "mean", "amax", "norm"][step % 4]))
        loss = scale_step(loss, 1.0 / (step + 1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


if __name__ == "__main__":
    main()
