"""`warnings.warn` in a captured program: given once per call, at the program's line, as the filters say."""

import contextlib
import sys
import warnings

import pytest
import torch

import stator
from tests.python.helpers import captures

x = torch.arange(3.0)


def deep(a):
    warnings.warn("deep", stacklevel=2)
    return a * 2


def warns(a):
    b = a + 1
    warnings.warn("by number", DeprecationWarning)
    c = deep(b)
    warnings.warn(message="by name", category=FutureWarning, stacklevel=1)
    return c - 3


def recorded(fn, *args, action="always"):
    """The result, and category, text, file and line of each warning."""
    globals().pop("__warningregistry__", None)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter(action)
        result = [fn(*args) for _ in range(2)]
    return result, [(item.category, str(item.message), item.filename, item.lineno) for item in seen]


@pytest.mark.parametrize("action", ["always", "default", "once", "ignore", "module"])
def test_given_as_the_filters_say(action):
    compiled = stator.compile(warns, fullgraph=True)
    for _ in range(2):
        mine, plain = recorded(compiled, x, action=action), recorded(warns, x, action=action)
        assert mine[1] == plain[1] and all(map(torch.equal, mine[0], plain[0]))
    assert captures() == 1


def product(a):
    return a @ a[:2]  # raises: the capture tries the call on zeros


def of_array(a):
    return torch.from_numpy(a.numpy() * 2 + 1)


@pytest.mark.parametrize("fn", [warns, product, of_array])
def test_a_capture_leaves_given_warnings_given(fn):
    """Python forgets which warnings it has given when the filters are changed; a capture must not do that."""
    compiled = stator.compile(fn)
    globals().pop("__warningregistry__", None)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for _ in range(3):
            warns(x)
            stator.reset()
            with contextlib.suppress(RuntimeError):
                compiled(x)
    assert [str(item.message) for item in seen] == ["by number", "deep", "by name"]


def test_an_error_is_raised_at_its_line():
    log = []

    def program(a):
        log.append("before")
        a.add_(1)
        warnings.warn("now an error")
        log.append("after")
        return a * 2

    compiled = stator.compile(program)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled(x.clone())
    log.clear()
    given = x.clone()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="now an error") as raised:
            compiled(given)
    assert log == ["before"] and torch.equal(given, x + 1)
    assert raised.traceback[-1].frame.code.name == "program"


@pytest.mark.parametrize("shown_by", ["showwarning", "_showwarnmsg_impl"])
def test_code_of_the_program_shows_it_in_time(monkeypatch, shown_by):
    state = []

    def program(a):
        state.append(1)
        warnings.warn("shown")
        state.append(2)
        return a + 1

    compiled = stator.compile(program)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        compiled(x)
        shown = []
        monkeypatch.setattr(warnings, shown_by, lambda *args, **kwargs: shown.append(list(state)) or "text")
        state.clear()
        compiled(x)
    assert shown == [[1]] and state == [1, 2]


def test_under_filters_of_the_program():
    def program(a):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                warnings.warn("caught")
            except UserWarning:
                a = a * 2
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("not seen")
        warnings.warn("seen")
        return a + 1

    compiled = stator.compile(program)
    for _ in range(2):
        assert str(recorded(compiled, x)) == str(recorded(program, x))


def test_at_a_line_outside_of_the_program():
    def program(a):
        warnings.warn("for the caller", stacklevel=2)
        return a + 1

    compiled = stator.compile(program)
    for _ in range(2):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            line = sys._getframe().f_lineno + 1
            compiled(x)
        assert [(item.filename, item.lineno) for item in seen] == [(__file__, line)]


def test_before_a_warning_of_torch():
    def program(a):
        warnings.warn("first")
        return torch.tensor(a)

    compiled = stator.compile(program)
    for _ in range(2):
        texts = [text for _, text, *_ in recorded(compiled, x)[1]]
        assert texts == [text for _, text, *_ in recorded(program, x)[1]] and texts[0] == "first"


def test_a_layer_that_warns():
    compiled = stator.compile(torch.nn.functional.kl_div, fullgraph=False)
    a, b = torch.rand(3).log().requires_grad_(), torch.rand(3)
    for _ in range(2):
        assert recorded(compiled, a, b)[1] == recorded(torch.nn.functional.kl_div, a, b)[1]

    def upsampled(image):
        return torch.nn.functional.upsample_nearest(image, scale_factor=2)

    compiled = stator.compile(upsampled, fullgraph=True)
    image = torch.rand(1, 2, 3, 3)
    for _ in range(2):
        mine, plain = recorded(compiled, image), recorded(upsampled, image)
        assert mine[1] == plain[1] and all(map(torch.equal, mine[0], plain[0]))
