"""The JSON schema of about.json accepts what the code accepts, and refuses what it refuses."""

import json

import jsonschema
import pytest

from fedbnsl import prepare
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.about import About, check_checksums, known_keys, read_about

CONTENT = About.model_json_schema()
ACCEPTED = [
    {},
    {"kind": "events", "window": ["2020-01-01", "2021-01-01"]},
    {"kind": "time-series", "step": 0.5, "stretches": {"a": [20, 10]}, "levels": {"x": ["a", "b"]}},
    {"columns": {"x": "count"}, "levels": {"y": ["no", 1]}, "missing": {"x": ["-9", 99], "y": []}},
    {"transform": {"x": "log"}, "separator": ";", "decimal": ",", "encoding": "cp1252"},
    {"recode": {"a": {"y": {"Ja": "yes", "9": None, "8": 1}}}, "scale": {"a": {"x": 2, "z": 0.4536}}},
    {"sheet": "Data", "ignore": ["id"], "rename": {"a": {"Alter": "age"}}, "unit": {"age": "years", "x": ""}},
    {"join": {"colour": ["red", "green"]}},
    {"omop": {"cohort": {"domain": "condition", "concepts": [201826]}, "columns": {"age": "age"}}},
    {"survival": {"death": ["days", "died"]}},
    {"sheet": {"a": "Data"}, "targets": {"a": ["x"]}, "comment": ["anything"], "$schema": "about.schema.json"},
]
REFUSED = [
    {"levls": {}},
    {"kind": "numbers"},
    {"columns": {"x": "label"}},
    {"columns": ["x"]},
    {"levels": {"x": []}},
    {"levels": {"x": ["a", "a"]}},
    {"missing": {"x": "NA"}},
    {"transform": {"x": "square"}},
    {"step": 0},
    {"window": [1]},
    {"omop": {"cohort": {"domain": "condition", "concepts": []}, "columns": {"age": "age"}}},
    {"omop": {"cohort": {"domain": "condition", "concepts": [1]}, "columns": {"age": "weight"}}},
    {"stretches": {"a": []}},
    {"stretches": {"a": [0]}},
    {"separator": "/"},
    {"decimal": ";"},
    {"recode": {"a": {"y": {}}}},
    {"recode": {"a": {"y": {"Ja": [1]}}}},
    {"scale": {"a": {"x": -1}}},
    {"scale": {"a": {"x": "2"}}},
    {"sheet": [1]},
    {"rename": {"a": {"Alter": ""}}},
    {"unit": ["years"]},
    {"join": {"colour": ["red"]}},
    {"targets": {"a": "x"}},
    {"survival": {"death": ["days"]}},
    {"survival": {"death": "died"}},
]


def accepted_by_code(folder, about):
    (folder / "about.json").write_text(json.dumps(about))
    try:
        read_about(folder)
    except BadInput:
        return False
    return True


@pytest.mark.parametrize("about", [*ACCEPTED, *REFUSED], ids=str)
def test_schema_and_code_agree(tmp_path, about):
    jsonschema.Draft202012Validator.check_schema(CONTENT)
    valid = jsonschema.Draft202012Validator(CONTENT).is_valid(about)
    assert valid == accepted_by_code(tmp_path, about) == (about in ACCEPTED)


def test_every_key_is_tried():
    provenance = set(known_keys()) - {key for about in ACCEPTED for key in about}
    unchecked = {"title", "description", "default", "type", "items"}
    assert all(
        set(CONTENT["properties"][key]) <= unchecked for key in provenance - {"checksums", "cluster", "condition"}
    )


@pytest.mark.parametrize(
    "recipe", ["homogeneous", "discrete", "mixed", "dynamic", "events", "surrogate", "interventions"]
)
def test_what_prepare_writes_is_accepted(tmp_path, recipe):
    prepare(recipe, tmp_path / "data", seed=1)
    about = read_about(tmp_path / "data")
    assert jsonschema.Draft202012Validator(CONTENT).is_valid(about)
    assert about["checksums"]
    check_checksums(tmp_path / "data", {}, {})
