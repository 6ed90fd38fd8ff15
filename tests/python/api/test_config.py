"""Settings: names and values are checked, patches are undone."""

import pytest

import stator


def test_defaults():
    assert stator.config.recompile_limit == 8
    assert stator.config.accumulated_recompile_limit == 256
    assert stator.config.suppress_errors is False


def test_unknown_names():
    with pytest.raises(AttributeError, match="no_such"):
        _ = stator.config.no_such
    with pytest.raises(AttributeError, match="recompile_limit"):
        stator.config.no_such = 1
    with pytest.raises(AttributeError):
        with stator.config.patch(no_such=1):
            pass


@pytest.mark.parametrize(
    ("name", "value"),
    [("recompile_limit", "8"), ("recompile_limit", True), ("recompile_limit", 0), ("suppress_errors", 1)],
)
def test_wrong_values(name, value):
    before = getattr(stator.config, name)
    with pytest.raises(stator.InvalidOption, match=name):
        setattr(stator.config, name, value)
    assert getattr(stator.config, name) == before


def test_patch_is_undone():
    with stator.config.patch(recompile_limit=3, suppress_errors=True):
        assert stator.config.recompile_limit == 3
        assert stator.config.suppress_errors is True
        with stator.config.patch("recompile_limit", 2):
            assert stator.config.recompile_limit == 2
        assert stator.config.recompile_limit == 3
    assert stator.config.recompile_limit == 8
    with pytest.raises(KeyError):
        with stator.config.patch({"recompile_limit": 5}):
            raise KeyError
    assert stator.config.recompile_limit == 8


def test_patch_is_all_or_nothing():
    with pytest.raises(stator.InvalidOption):
        with stator.config.patch(recompile_limit=3, suppress_errors="x"):
            pass
    assert stator.config.recompile_limit == 8


def test_patch_as_decorator():
    @stator.config.patch(recompile_limit=4)
    def inside():
        return stator.config.recompile_limit

    assert inside() == inside() == 4
    assert stator.config.recompile_limit == 8


def test_contradicting_settings():
    with stator.config.patch(suppress_errors=True, fail_on_recompile_limit_hit=True):
        with pytest.raises(AssertionError, match="suppress_errors.*fail_on_recompile_limit_hit"):
            stator.compile(lambda x: x)


def test_prints_every_setting():
    text = repr(stator.config)
    for name in stator.config.to_dict():
        assert f"{name} = " in text
        assert name in dir(stator.config)
