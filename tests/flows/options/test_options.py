"""One model defines each option with default and meaning; command line, Python, Prefect's form and README agree."""

import inspect
import re
from pathlib import Path

import pytest

from fedbnsl import learn as learn_api
from fedbnsl import prepare as prepare_api
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.parameters.tables import FamilyTables
from fedbnsl.algorithms.registry import ALGORITHMS
from fedbnsl.data.generators.discrete import discrete
from fedbnsl.data.generators.dynamic import DynamicSettings
from fedbnsl.data.generators.linear import heterogeneous, homogeneous
from fedbnsl.data.generators.mixed import mixed
from fedbnsl.data.generators.nonlinear import nonlinear
from fedbnsl.data.networks.published import network
from fedbnsl.data.networks.sachs import sachs
from fedbnsl.data.networks.surrogate import surrogate
from fedbnsl.data.recordings.series import series
from fedbnsl.data.splitting.partition import split_table
from fedbnsl.flows.cli.features import FeaturesOptions
from fedbnsl.flows.cli.main import command, main
from fedbnsl.flows.job.reading import reading_of
from fedbnsl.flows.options.learn import LearnOptions, LearnSettings
from fedbnsl.flows.options.prepare import KINDS
from fedbnsl.flows.options.repeat import RepeatOptions

ROOT = Path(__file__).parents[3]
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
REQUIRED = {
    "network": {"network": "asia"},
    "split": {"table": "t.csv"},
    "series": {"table": "t.csv"},
    "amputate": {"source": "whole"},
}
"""what has no default"""
WRITTEN = {"source": "from"}
"""fields with another name on the command line, because the option's name is a Python keyword"""


def defaults(model):
    """The defaults of the fields of a model that have one."""
    return {
        name: field.get_default(call_default_factory=True)
        for name, field in model.model_fields.items()
        if not field.is_required()
    }


class TakenError(BadInput):
    """Raised in place of the work that a command was about to do."""


@pytest.fixture
def asked(monkeypatch):
    """A function that returns the first argument with which a command line calls the working function."""

    def of(target, *words):
        found = []

        def take(*arguments, **options):
            found.append(arguments[0])
            raise TakenError("stop")

        monkeypatch.setattr(target, take)
        with pytest.raises(SystemExit):
            main(list(words))
        (only,) = found
        return only

    return of


def test_the_commands_have_the_defaults_of_the_model(asked):
    assert asked("fedbnsl.flows.cli.learn.run_learn", "learn", "data") == LearnOptions()
    assert asked("fedbnsl.flows.schedule.serve_learn", "serve", "data") == LearnSettings(data="data")
    features = asked("fedbnsl.flows.cli.features.learn_features", "features", "data", "--target", "x")
    assert features == FeaturesOptions().with_data(Path("data"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_recipe_is_the_same_from_the_command_line_and_from_python(asked, monkeypatch, kind):
    required = REQUIRED.get(kind, {})
    words = [word for name, value in required.items() for word in (f"--{WRITTEN.get(name, name)}", value)]
    recipe = KINDS[kind](**required)
    assert asked(f"{KINDS[kind].__module__}.{KINDS[kind].__name__}.build", "prepare", kind, "out", *words) == recipe
    made = []

    def build(recipe):
        made.append(recipe)

    monkeypatch.setattr(KINDS[kind], "build", build)
    prepare_api(kind, **required)
    assert made == [recipe]


@pytest.mark.parametrize(
    ("name", "model", "missing"),
    [
        ("learn", LearnOptions, set()),
        ("features", FeaturesOptions, {"parameters", "diagnose", "smoothing", "small_cells", "bootstrap"}),
        ("serve", LearnOptions, {"name", "out"}),
    ],
)
def test_a_command_has_an_option_for_every_field_with_its_meaning(name, model, missing):
    options = {one.name: one for one in command(name).params}
    for field in set(model.model_fields) - missing:
        assert options[field].help.startswith(model.model_fields[field].description)
        assert options[field].default in (defaults(model)[field], None), field
    assert not missing & {one for one in options if one not in ("name",)}
    assert {"-a", "-p"} <= {word for one in options.values() for word in one.opts}


def test_the_python_signature_has_the_names_types_and_defaults_of_the_model():
    parameters = inspect.signature(learn_api).parameters
    own = {"data", "by", "about", "truth", "engine", "progress", "params"}
    fields = {name: field for name, field in LearnOptions.model_fields.items() if name != "params"}
    assert set(parameters) == set(fields) | own
    assert parameters["params"].kind is inspect.Parameter.VAR_KEYWORD
    for name, field in fields.items():
        assert parameters[name].default == field.default, name
        wider = {"out": str | Path | None, "algorithm": "str | DataclassInstance"}.get(name, field.annotation)
        assert parameters[name].annotation == wider, name


def test_the_forms_have_the_defaults_and_the_meanings_of_the_models():
    from prefect.utilities.callables import parameter_schema

    from fedbnsl.flows.learn import learn
    from fedbnsl.flows.prepare import prepare

    forms = [(parameter_schema(learn), {"LearnSettings": LearnSettings})]
    forms.append((parameter_schema(prepare), {model.__name__: model for model in KINDS.values()}))
    for form, models in forms:
        for name, model in models.items():
            shown = form.model_dump()["definitions"][name]["properties"]
            assert set(shown) == set(model.model_fields)
            known = {field: value for field, value in defaults(model).items() if field != "params"}
            as_json = {field: list(value) if isinstance(value, tuple) else value for field, value in known.items()}
            assert {field: shown[field]["default"] for field in known} == as_json
            said = {field: one.description for field, one in model.model_fields.items() if field != "kind"}
            assert {field: shown[field]["description"] for field in said} == said
            assert all(said.values())


def documents():
    """The text of README and of all pages of docs/."""
    return "\n".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)


def test_defaults_that_the_documents_state_are_those_of_the_model():
    text = " ".join(documents().split())
    stated = re.findall(r"`--([a-z-]+)`[^`.;(]*\(([^()\s]+) by default\)", text)
    assert {"smoothing", "silo-patience", "drift-edges", "drift-parameters"} <= {name for name, _ in stated}
    for name, value in stated:
        field = name.replace("-", "_")
        (default,) = {
            one.model_fields[field].default for one in (LearnOptions, RepeatOptions) if field in one.model_fields
        }
        assert float(value) == default, name
    assert "default: 1/n², where n is the number of rows of the smallest silo" in text
    assert "default: 1/n² with n rows in the smallest silo" in LearnOptions.model_fields["delta"].description


def test_smoothing_is_that_of_the_exchange_that_learns_tables():
    assert LearnOptions().smoothing == FamilyTables().ess


def test_the_documents_name_every_algorithm_and_every_kind_of_data():
    text = documents()
    assert [name for name in ALGORITHMS if f"`{name}`" not in text] == []
    (kinds,) = re.findall(r"`fedbnsl prepare (\S+\|\S+) OUT`", text)
    assert set(kinds.split("\\|")) == set(KINDS)


MADE_BY = {
    "homogeneous": homogeneous,
    "heterogeneous": heterogeneous,
    "nonlinear": nonlinear,
    "discrete": discrete,
    "mixed": mixed,
    "surrogate": surrogate,
    "sachs": sachs,
    "network": network,
    "split": split_table,
    "dynamic": DynamicSettings,
    "series": series,
}


@pytest.mark.parametrize("kind", MADE_BY)
def test_what_a_generator_still_takes_for_granted_is_what_the_recipe_does(kind):
    recipe = defaults(KINDS[kind])
    for name, parameter in inspect.signature(MADE_BY[kind]).parameters.items():
        if parameter.default is inspect.Parameter.empty or name == "kind":
            continue
        default = f"{parameter.default[0]}-{parameter.default[1]}" if name == "levels" else parameter.default
        assert recipe[name] == default, name


def test_heterogeneous_data_are_twenty_silos_of_fifty_rows(capsys, tmp_path):
    with pytest.raises(SystemExit):
        main(["prepare", "heterogeneous", str(tmp_path / "made"), "--variables", "4"])
    assert "20 silos, 1000 rows, 4 variables" in capsys.readouterr().out
    assert set(prepare_api("heterogeneous", variables=4).schema.rows.values()) == {50}


@pytest.mark.parametrize(
    ("options", "private"),
    [
        ({"epsilon": 1.0}, True),
        ({"algorithm": "secure-sum", "params": {"epsilon": 1.0}}, True),
        ({"algorithm": "dp-covariance"}, True),
        ({"algorithm": "secure-sum"}, False),
        ({}, False),
    ],
)
def test_a_private_algorithm_is_read_privately_however_it_is_asked_for(options, private):
    assert reading_of(LearnOptions(**options)).private is private
