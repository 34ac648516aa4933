import sys
from pathlib import Path

import pytest
import yaml

from fedbnsl.algorithms.choose import AUTO
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.registry import ALGORITHMS, parameter_names
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.flows.options.model import validate
from fedbnsl.flows.options.parameters import ELSEWHERE, FEATURED, settings_schema
from fedbnsl.flows.options.prepare import KINDS, recipe
from fedbnsl.flows.options.repeat import RepeatSettings

ROOT = Path(__file__).parents[3]


def test_the_form_of_learn_has_titles_descriptions_and_the_algorithms():
    from prefect.utilities.callables import parameter_schema

    from fedbnsl.flows.learn import learn

    schema = parameter_schema(learn).model_dump()
    form = schema["definitions"]["LearnSettings"]["properties"]
    assert set(form) == set(LearnSettings.model_fields)
    assert all(field["title"] and field["description"] for field in form.values())
    assert form["algorithm"]["enum"] == [AUTO, *sorted(ALGORITHMS)]
    assert form["data"]["title"] == "Data set"
    repeat = schema["definitions"]["RepeatSettings"]["properties"]
    assert set(repeat) == set(RepeatSettings.model_fields)
    assert all(field["title"] and field["description"] for field in repeat.values())
    assert "repeat" not in schema.get("required", [])


def test_the_form_of_prepare_tells_the_kinds_apart():
    from prefect.utilities.callables import parameter_schema

    from fedbnsl.flows.prepare import prepare

    schema = parameter_schema(prepare).model_dump()
    assert set(schema["properties"]["data"]["discriminator"]["mapping"]) == set(KINDS)
    assert all(definition["title"] for definition in schema["definitions"].values())


def test_the_deployments_point_at_flows_with_parameters_they_take(monkeypatch):
    from prefect.flows import load_flow_from_entrypoint

    monkeypatch.chdir(ROOT)
    content = yaml.safe_load((ROOT / "prefect.yaml").read_text())
    names = {}
    for deployment in content["deployments"]:
        flow = load_flow_from_entrypoint(deployment["entrypoint"])
        flow.validate_parameters(deployment["parameters"])
        names[deployment["name"]] = flow.name
    assert names == {"learn": "learn", "prepare": "prepare"}


def test_wrong_settings_are_one_line():
    with pytest.raises(BadInput, match="seed is '-1': input should be greater than or equal to 0"):
        validate(LearnSettings, {"data": "x", "seed": -1})
    with pytest.raises(BadInput, match="unknown algorithm 'magic'"):
        validate(LearnSettings, {"data": "x", "algorithm": "magic"})
    with pytest.raises(BadInput, match="unknown option 'speed': did you mean seed"):
        validate(LearnSettings, {"data": "x", "speed": 9})
    with pytest.raises(BadInput, match="unknown kind of data 'magic'"):
        recipe("magic")


def test_the_prepare_flow_writes_the_folder(server, tmp_path):
    from fedbnsl.data.folder.folder import read_folder
    from fedbnsl.flows.prepare import prepare

    out = tmp_path / "made"
    options = {"kind": "heterogeneous", "variables": 4, "silos": 2, "rows": 20, "seed": 1}
    assert prepare(data=options, out=str(out)) == str(out)
    made = read_folder(out)
    assert made.schema.silos == ("silo-1", "silo-2")
    again = recipe(**options).build()
    assert made.tables["silo-1"].tobytes() == again.tables["silo-1"].tobytes()


@pytest.mark.slow
def test_prefect_lists_its_runs_with_our_pins(server):
    import os
    import subprocess

    environment = {**os.environ, "PREFECT_API_URL": server}
    words = [sys.executable, "-m", "prefect", "flow-run", "ls"]
    done = subprocess.run(words, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_no_field_is_called_like_a_keyword_of_its_form():
    """Prefect takes a property called `required` for the keyword of JSON Schema, and then refuses every deployment."""
    keywords = {"required", "properties", "additionalProperties", "definitions", "type", "enum", "$ref"}
    assert not keywords & set(LearnSettings.model_fields)


@pytest.mark.parametrize(("algorithm", "shown"), [("fed-pc", ("fed-pc",)), (AUTO, FEATURED)])
def test_the_form_of_a_deployment_has_fields_for_the_settings_of_its_algorithm(algorithm, shown):
    """Settings in the old format still fit the form; the form of a run that is started here stays small."""
    from prefect.utilities.callables import parameter_schema

    from fedbnsl.flows.learn import learn
    from fedbnsl.flows.schedule import create_deployment

    deployment = create_deployment(
        LearnSettings(data="example", algorithm=algorithm), RepeatSettings(deployment="nightly")
    )
    schema = deployment._parameter_openapi_schema.model_dump()
    forms = schema["definitions"]["LearnSettings"]["properties"]["params"]["anyOf"]
    titles = [form["title"] for form in forms]
    assert titles == (["as JSON", *shown] if len(shown) > 1 else [*shown, "as JSON"])
    assert forms[titles.index("as JSON")]["type"] == "object"
    assert "params" not in deployment.parameters["settings"]
    assert "anyOf" not in parameter_schema(learn).model_dump()["definitions"]["LearnSettings"]["properties"]["params"]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_setting_of_an_algorithm_has_a_field_with_its_meaning(name):
    fields = settings_schema(name)["properties"]
    assert set(fields) == {"preset"} & set(fields) | set(parameter_names(name)) - set(ELSEWHERE)
    assert all("default" not in field and field["description"] for field in fields.values())


def test_no_two_fields_of_a_form_have_one_title():
    for model in (LearnSettings, RepeatSettings):
        titles = [field["title"] for field in model.model_json_schema()["properties"].values()]
        assert len(set(titles)) == len(titles)


def test_the_form_begins_with_what_most_runs_set():
    """Prefect's page sorts fields by their positions."""
    positions = {name: field["position"] for name, field in LearnSettings.model_json_schema()["properties"].items()}
    order = sorted(positions, key=positions.__getitem__)
    assert order[:4] == ["data", "algorithm", "epsilon", "secure"]
    assert order[-1] == "params"
    assert set(order) == set(LearnSettings.model_fields)


def test_a_setting_that_is_true_or_false_is_no_switch():
    """A switch without a default would show "off" for a setting that is on."""
    fix_order = settings_schema("fed-sparse")["properties"]["fix_order"]
    assert fix_order["enum"] == [True, False]
    assert "type" not in fix_order
