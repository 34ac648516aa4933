"""Settings: the type of a field states its range, and every class of the registry keeps the ranges of its bases."""

from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, get_type_hints

import pytest
from annotated_types import Ge, Gt, Le, Lt

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.settings import Auto, Count, Quota, Settings, Share
from fedbnsl.algorithms.errors import BadInput

TABLES = (registry.ALGORITHMS, registry.STEPS, registry.WRAPPERS)
CLASSES = sorted({one.config for table in TABLES for one in table.values()}, key=lambda one: one.__name__)


@dataclass(frozen=True)
class Ranged(Settings):
    """Settings with each kind of range."""

    count: Count = 1
    share: Share = 0.5
    quota: Quota = 0.0
    step: Annotated[float, Gt(0), Le(1)] = 1.0
    part: Annotated[float, Ge(0), Lt(1)] = 0.0
    cells: Count | Auto = "auto"
    kind: Literal["plain", "mixed"] = "plain"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"count": 0}, "parameter count is 0: it must be 1 or more"),
        ({"share": 1.0}, "parameter share is 1.0: it must be between 0 and 1"),
        ({"quota": -0.1}, "parameter quota is -0.1: it must be from 0 to 1"),
        ({"step": 0.0}, "parameter step is 0.0: it must be above 0 and at most 1"),
        ({"part": 1.0}, "parameter part is 1.0: it must be from 0 to below 1"),
        ({"part": float("nan")}, "parameter part is nan: it must be from 0 to below 1"),
        ({"cells": 0}, "parameter cells is 0: it must be 1 or more, or auto"),
        ({"cells": "many"}, "parameter cells is many: it must be 1 or more, or auto"),
        ({"kind": "odd"}, "parameter kind is 'odd': it must be one of plain, mixed"),
        ({"share": "auto"}, "parameter share is auto: it must be between 0 and 1"),
    ],
)
def test_a_value_outside_its_range_is_refused_in_one_line(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        Ranged(**given)
    assert str(refused.value) == said


def test_values_at_the_bounds_and_words_are_accepted() -> None:
    assert Ranged(quota=1.0, step=1.0, cells=1) != Ranged(cells="auto")


@pytest.mark.parametrize("config", CLASSES, ids=lambda one: one.__name__)
def test_a_field_that_is_repeated_for_another_default_keeps_its_type(config: Any) -> None:
    """A repeated field may be narrower, such as an ε above 0, but not without a range."""
    assert issubclass(config, Settings)
    for base in (one for one in config.__mro__[1:] if issubclass(one, Settings)):
        repeated = {field.name for field in fields(base)} & set(base.bounds())
        assert repeated <= set(config.bounds()), f"{config.__name__} repeats {repeated - set(config.bounds())}"
    assert set(get_type_hints(config)) >= {field.name for field in fields(config)}
