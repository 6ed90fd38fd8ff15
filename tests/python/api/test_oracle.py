"""`stator.config.oracle`: hits are checked against a fresh capture. It must be silent where guards are right, and speak
where they are not."""

import enum

import pytest
import torch

import stator
from tests.python.helpers import captures, run_program


@pytest.fixture(autouse=True)
def oracle():
    with stator.config.patch(oracle=True):
        yield


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.seen = None

    def forward(self, x):
        self.seen = x
        return self.linear(x).relu() * 2


class Mode(enum.Enum):
    A = 1


def breaks(x):
    y = x + 1
    print(end="")
    return y * 2


def writes(x, box):
    box.append(x.sum())
    x.add_(1)
    return len(box)


@pytest.mark.parametrize(
    ("fn", "make"),
    [
        (lambda x, n: x * n, lambda: (torch.ones(2), 3)),
        (breaks, lambda: (torch.ones(2),)),
        (writes, lambda: (torch.ones(2), [])),
        (lambda x: x + Mode.A.value, lambda: (torch.ones(2),)),
        (lambda x: torch.nonzero(x).shape[0] + x, lambda: (torch.ones(2),)),
        (lambda x: [y * 2 for y in x], lambda: ([torch.ones(2), torch.ones(3)],)),
    ],
)
def test_right_guards_pass(fn, make):
    compiled = stator.compile(fn)
    for _ in range(4):
        compiled(*make())
    assert captures() > 0


def test_modules_pass_and_hits_are_hits():
    model = Net()
    compiled = stator.compile(model)
    for _ in range(4):
        compiled(torch.ones(2, 3))
    for _ in range(2):
        compiled(torch.ones(4, 3))
    assert captures() == 2
    assert model.seen.shape == (4, 3)


def test_a_python_backend_is_not_called_again(K):
    compiled = stator.compile(lambda x: x * 2, backend=K)
    for _ in range(3):
        compiled(torch.ones(2))
    assert K.count == 1


def test_what_no_guard_tells_is_found():
    state = [2]

    @stator.assume_constant_result
    def factor():
        return state[0]

    def f(x):
        return x * factor()

    compiled = stator.compile(f)
    for _ in range(2):
        compiled(torch.ones(2))
    state[0] = 3
    with pytest.raises(stator.OracleError, match="a fresh capture differs from the entry") as raised:
        compiled(torch.ones(2))
    assert "only in the entry:" in str(raised.value) and "only in the fresh capture:" in str(raised.value)
    with stator.config.patch(oracle=False):
        compiled(torch.ones(2))


def test_entries_from_before_are_left_alone():
    compiled = stator.compile(lambda x: x + 1)
    with stator.config.patch(oracle=False):
        compiled(torch.ones(2))
    compiled(torch.ones(2))
    assert captures() == 1


def test_the_environment_sets_it():
    program = "import stator; print(stator.config.oracle)"
    assert run_program(program, STATOR_ORACLE="1") == "True"
    assert run_program(program, STATOR_ORACLE="0") == "False"
