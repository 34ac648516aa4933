"""Renamed settings keep their old names for one version, with a warning."""

import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.spec import RENAMED_SETTINGS
from fedbnsl.algorithms.errors import BadInput, RenamedWarning


def test_an_old_name_sets_the_renamed_setting_and_warns():
    with pytest.warns(RenamedWarning, match="hold of fed-sparse is deprecated: it is now send_threshold"):
        old = registry.specify("fed-sparse", {"hold": "0.25"})
    assert old == registry.specify("fed-sparse", {"send_threshold": 0.25})
    assert old.settings.send_threshold == 0.25


def test_the_old_and_the_new_name_together_are_refused():
    with pytest.raises(BadInput, match="give only send_threshold"):
        registry.specify("fed-sparse", {"hold": 0.1, "send_threshold": 0.2})


@pytest.mark.parametrize(("old", "new"), RENAMED_SETTINGS.items())
def test_a_renamed_setting_exists_and_its_old_name_is_free(old, new):
    names = [set(registry.parameter_names(name)) for name in registry.ALGORITHMS]
    assert any(new in one for one in names)
    assert not any(old in one for one in names)
