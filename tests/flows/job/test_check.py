"""The settings of a run are parsed once, and its algorithm is built once, for all users of them."""

from dataclasses import replace

import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.flows.job.check import algorithm_spec, check, check_options, create_job
from fedbnsl.flows.job.reading import is_private
from fedbnsl.flows.options.learn import LearnOptions, LearnSettings
from fedbnsl.flows.start import learn_inline, precheck


@pytest.fixture
def counted(monkeypatch):
    """(parsed, built): the names of the algorithms whose settings were parsed, and the settings they were built of."""
    parsed, built = [], []
    known, parse = registry.entry("fed-sparse"), registry.parse_settings
    factory = replace(known.maker(), build=lambda settings: built.append(settings) or known.build(settings))
    monkeypatch.setitem(registry.ALGORITHMS, "fed-sparse", replace(known, maker=lambda: factory))
    monkeypatch.setattr(registry, "parse_settings", lambda name, *given: parsed.append(name) or parse(name, *given))
    return parsed, built


def test_a_run_parses_its_settings_once_and_builds_its_algorithm_once(example, counted, tmp_path):
    parsed, built = counted
    given = {"data": str(example), "algorithm": "fed-sparse", "params": {"rounds": "2"}, "out": str(tmp_path / "run")}
    settings = LearnSettings(**given).named()
    learn_inline(settings, precheck(settings))
    assert parsed == ["fed-sparse"]
    assert [one.rounds for one in built] == [2]


def test_a_copy_with_other_settings_is_parsed_again():
    options = LearnOptions(algorithm="fed-pc", params={"alpha": "0.05"})
    check_options(options)
    stricter = options.model_copy(update={"params": {"alpha": "0.01"}})
    assert (algorithm_spec(options, None).settings.alpha, algorithm_spec(stricter, None).settings.alpha) == (0.05, 0.01)
    private = LearnOptions(algorithm="secure-sum")
    assert not is_private(private)
    assert is_private(private.model_copy(update={"epsilon": 1.0}))


def test_settings_that_are_equal_but_of_other_types_are_built_apart():
    whole, real = (
        replace(registry.specify("fed-sparse"), settings=replace(registry.specify("fed-sparse").settings, l1=l1))
        for l1 in (1, 1.0)
    )
    assert whole == real
    assert registry.build(whole) is not registry.build(real)
    assert registry.build(real) is registry.build(real)


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"detrend": True}, "continuous", "--detrend is for time series, and study is continuous"),
        ({"deseasonalise": 30}, "time-series", "silo a: its longest unbroken series has 40 rows, 60 are needed"),
        ({"difference": True, "epsilon": 1.0}, "time-series", "--difference cannot be used with an ε"),
        ({"transform": "log"}, "events", "--transform is for columns of numbers, and the rows of study are events"),
        ({"difference": True}, "states", "--difference is for numbers, and all columns of study have labels"),
    ],
)
def test_an_adjustment_that_cannot_be_made_is_refused_in_one_line(options, kind, said):
    settings = LearnSettings(data="study", **options)
    levels = {"x": ("off", "on"), "y": ("off", "on")} if kind == "states" else {}
    kind = "time-series" if levels else kind
    stretches = {"a": (40,), "b": (70,)} if kind == "time-series" else {}
    schema = Schema(("x", "y"), {"a": 40, "b": 70}, kind, levels=levels, stretches=stretches)
    with pytest.raises(BadInput, match=said):
        check(create_job(settings, "run", "inline", schema, {}, None, {}), schema)
