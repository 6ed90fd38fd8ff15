"""Grad, inference and autocast modes; gradients and other state of tensors."""

import torch

import stator
from tests.python.helpers import assert_same
from tests.python.parity.programs import Programs, x, y

programs = Programs()
w = torch.full((2, 3), 2.0, requires_grad=True)


@programs((x,), (w,))
def inference_block(a):
    with torch.inference_mode():
        b = a * 2
    c = a + 1
    return b, c, b.is_inference(), c.is_inference(), torch.is_inference_mode_enabled()


@programs((w,))
def inference_nested(a):
    with torch.inference_mode():
        b = a * 2
        with torch.inference_mode(False):
            c = a * 3
            with torch.no_grad():
                d = a + c
        e = a - 1
        with torch.enable_grad():
            f = a * 5
    return b, c, d, e, f, [t.is_inference() for t in (b, c, d, e, f)], c.requires_grad, f.requires_grad


@programs((x, y))
def inference_autocast(a, b):
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        c = a @ b.T
        with torch.autocast("cpu", enabled=False):
            d = a @ b.T
    return c, d, c.is_inference(), d.is_inference()


@torch.inference_mode()
def halved(t):
    return t / 2


@torch.inference_mode(mode=False)
def doubled(t):
    return t * 2


@torch.no_grad()
def negated(t):
    return -t


@programs((w,))
def decorated_modes(a):
    b, c, d = halved(a), doubled(a), negated(a)
    return b, c, d, b.is_inference(), c.is_inference(), c.requires_grad, d.requires_grad


@programs((w,))
def set_grad_enabled_block(a):
    with torch.set_grad_enabled(False):
        b = a * 2
    with torch.set_grad_enabled(True):
        c = a * 2
    return b.requires_grad, c.requires_grad, c


@programs((x,))
def inference_after_error(a):
    try:
        with torch.inference_mode():
            raise ValueError("no")
    except ValueError:
        pass
    return a + 1, torch.is_inference_mode_enabled()


@programs((x.clone(),), (w,))
def data_read(a):
    d = a.data
    return d * 2, d.requires_grad, d.is_leaf


@programs((w,))
def data_written_in_place(a):
    a.data.mul_(2)
    return a + 1


@programs((x.clone(), y.clone()))
def data_replaced(a, b):
    a.data = b
    return a + 1


with_grad = torch.ones(3, requires_grad=True)
with_grad.grad = torch.arange(3.0)


def copy_with_grad():
    made = torch.ones(3, requires_grad=True)
    made.grad = torch.arange(3.0)
    return made


class Holder:
    """A deepcopy keeps the gradient of its tensor."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __deepcopy__(self, memo):
        made = self.tensor.detach().clone().requires_grad_(self.tensor.requires_grad)
        if self.tensor.grad is not None:
            made.grad = self.tensor.grad.clone()
        return Holder(made)

    def __eq__(self, other):
        mine, theirs = self.tensor.grad, other.tensor.grad
        same = (mine is None) == (theirs is None) and (mine is None or torch.equal(mine, theirs))
        return same and torch.equal(self.tensor, other.tensor)

    __hash__ = None


@programs((Holder(with_grad),), (Holder(w),))
def grad_read(h):
    if h.tensor.grad is None:
        return h.tensor * 2
    return h.tensor * h.tensor.grad


@programs((Holder(with_grad),))
def grad_in_place(h):
    h.tensor.grad.mul_(3)
    return h.tensor + 1


@programs((Holder(with_grad),), (Holder(w),))
def grad_written(h):
    h.tensor.grad = None
    b = h.tensor.detach() * 2
    h.tensor.grad = b
    return h.tensor.grad is b, h.tensor.grad + 1


@programs((Holder(with_grad),))
def grad_cleared(h):
    h.tensor.grad = None
    return h.tensor.grad is None, h.tensor * 1


@programs((x,), (w,))
def leaves(a):
    b = a * 2
    return a.is_leaf, b.is_leaf, b.detach().is_leaf, b


@programs((x,), (w,))
def grad_fn_is_none(a):
    b = a * 2
    return a.grad_fn is None, b.grad_fn is None, b.grad_fn is not None, b


@programs((x.clone(),))
def requires_grad_on_result(a):
    b = (a * 2).requires_grad_()
    c = b * b
    return b, c, b.is_leaf, c.requires_grad


@programs((x.clone(),))
def requires_grad_set(a):
    b = a + 1
    b.requires_grad = True
    c = (b * 3).sum()
    return b, c, b.requires_grad


@programs((x.clone(),), (w,))
def requires_grad_on_input(a):
    a.requires_grad_(True)
    return a * 2, a.requires_grad


@programs((w,))
def detach_in_place(a):
    b = a * 2
    b.detach_()
    return b, b.requires_grad, b.is_leaf


@programs((w,))
def hook(a):
    b = a * 2
    b.register_hook(lambda g: g * 2)
    return b


@programs((w,))
def no_grad_update(a):
    with torch.no_grad():
        a.sub_(0.1)
    return a * 2


@programs((x, torch.float64), (x, torch.float32))
def default_dtype_of_the_rest(a, dtype):
    before = torch.get_default_dtype()
    b = torch.ones(3)
    torch.set_default_dtype(dtype)
    c, d = torch.ones(3), torch.arange(3) / 2
    torch.set_default_dtype(before)
    return a + b, a + c, b, c, d, torch.arange(3) / 2, torch.tensor(1.0)


test_torch_state = programs.tests()


def default_dtype_is_left(a, dtype):
    torch.set_default_dtype(dtype)
    return a + torch.ones(3)


def default_dtype_and_an_error(a, b):
    torch.set_default_dtype(torch.float64)
    try:
        return a.view(-1)[: b.numel()] + b[b.long()]
    finally:
        torch.set_default_dtype(torch.float32)


def test_default_dtype_outlives_the_call():
    before = torch.get_default_dtype()
    compiled = stator.compile(default_dtype_is_left, fullgraph=True)
    try:
        for dtype in (torch.float64, torch.float32, torch.float64, torch.float32):
            expected = default_dtype_is_left(x, dtype)
            torch.set_default_dtype(torch.float32)
            assert_same(compiled(x, dtype), expected)
            assert torch.get_default_dtype() == dtype
            torch.set_default_dtype(torch.float32)
    finally:
        torch.set_default_dtype(before)


def test_default_dtype_after_an_error():
    compiled = stator.compile(default_dtype_and_an_error)
    for index in (0.0, 1.0, 5.0):
        outcomes = []
        for fn in (default_dtype_and_an_error, compiled):
            try:
                outcomes.append(fn(x, torch.tensor([index, 0.0])))
            except IndexError as error:
                outcomes.append(str(error))
            assert torch.get_default_dtype() == torch.float32
        assert_same(*outcomes)


def kernels():
    return torch.nn.attention._cur_sdpa_kernel_backends(with_priority=True)


def attention_of_chosen_kernels(q, index):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    before = kernels()
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
        inside = kernels()
        a = torch.nn.functional.scaled_dot_product_attention(q, q, q)
        rows = q[index]
    with sdpa_kernel(SDPBackend.MATH):
        b = torch.nn.functional.scaled_dot_product_attention(q, q, q)
    return a, b, rows, before, inside, kernels()


def test_kernels_of_attention():
    compiled = stator.compile(attention_of_chosen_kernels, fullgraph=True)
    q, before = torch.linspace(-1, 1, 48).reshape(1, 2, 6, 4), kernels()
    for index in (torch.tensor([0]), torch.tensor([9]), torch.tensor([0])):
        outcomes = []
        for fn in (attention_of_chosen_kernels, compiled):
            try:
                outcomes.append(fn(q, index))
            except IndexError as error:
                outcomes.append(str(error))
            assert kernels() == before
        assert_same(*outcomes)
    # The enabled kernels are guarded.
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert_same(compiled(q, torch.tensor([0])), attention_of_chosen_kernels(q, torch.tensor([0])))
