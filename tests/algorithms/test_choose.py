"""The choice of `auto` by kind and ε: a registered learner for that kind of data, private if there is an ε."""

import itertools

import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.choose import CHOICES, choices
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput

EXPECTED = {
    ("continuous", False): "secure-linear",
    ("continuous", True): "secure-sum",
    ("discrete", False): "secure-boss",
    ("discrete", True): "fed-pc",
    ("mixed", False): "secure-boss",
    ("mixed", True): "secure-sum",
    ("time-series", False): "secure-linear",
    ("time-series", True): "secure-sum",
}
CASES = list(itertools.product(("continuous", "discrete", "mixed", "time-series"), (False, True)))


def schema_of(kind):
    return Schema(("a", "b"), {"one": 50, "two": 60}, kind)


@pytest.mark.parametrize(("kind", "private"), CASES)
def test_each_kind_has_its_choice_and_an_alternative(kind, private):
    first, *others = choices(schema_of(kind), private=private)
    assert first.name == EXPECTED[kind, private]
    assert others
    assert first.name not in {one.name for one in others}


@pytest.mark.parametrize(("kind", "private"), CASES)
def test_every_choice_learns_from_its_kind_with_the_parameters_set_for_it(kind, private):
    for one in choices(schema_of(kind), private=private):
        spec = registry.specify(one.name, one.params, *((1.0, 1e-6) if private else ()))
        assert kind in registry.entry(one.name).kinds
        assert (registry.build(spec).private is not None) == private
        assert not registry.entry(one.name).pooled
        assert one.why


def test_many_discrete_variables_get_the_search_that_sends_little():
    names = tuple(f"v{place}" for place in range(101))
    few, many, most = (choices(Schema(names[:d], {"one": 50}, "discrete"), private=False) for d in (40, 41, 101))
    assert [one.name for one in many[:2]] == [one.name for one in most[:2]] == ["secure-ges", "secure-boss"]
    assert many[0].params == {"refine": True}
    assert not most[0].params
    assert few[0].name == "secure-boss"


def test_no_other_kind_is_guessed_at():
    assert set(CHOICES) == {*CASES, ("events", False)}
    with pytest.raises(BadInput, match="no algorithm learns from spatial data with an ε"):
        choices(schema_of("spatial"), private=True)
