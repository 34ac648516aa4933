"""`fedbnsl inspect --write` drafts the `about.json` that a run with an ε needs."""

import json

import pytest

from fedbnsl import learn, prepare
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.about import Reading, read_about
from fedbnsl.data.folder.folder import read_folder
from fedbnsl.flows.cli.main import main

RECIPES = {
    "numbers": ("homogeneous", {"variables": 4, "silos": 3, "rows": 3000}),
    "labels": ("discrete", {"variables": 4, "silos": 3, "rows": 3000}),
    "mixed": ("mixed", {"variables": 4, "silos": 3, "rows": 3000}),
    "series": ("dynamic", {"variables": 3, "silos": 3, "rows": 3000}),
}


def run(*words):
    with pytest.raises(SystemExit) as done:
        main([*map(str, words)])
    assert not done.value.code


@pytest.mark.parametrize("name", RECIPES)
def test_a_drafted_folder_can_be_learned_with_an_epsilon(name, tmp_path, capsys):
    recipe, options = RECIPES[name]
    folder = tmp_path / "data"
    prepare(recipe, folder, seed=1, **options)
    drafted = json.loads((folder / "about.json").read_text())
    (folder / "about.json").unlink()
    with pytest.raises(BadInput, match="inspect FOLDER --write"):
        learn(folder, epsilon=8, engine="inline")
    run("inspect", folder, "--write")
    assert "review kinds and levels" in capsys.readouterr().out
    written = json.loads((folder / "about.json").read_text())
    assert written == {key: drafted[key] for key in written}
    learn(folder, epsilon=8, engine="inline")


def test_what_is_declared_stays(tmp_path, capsys):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.csv").write_text("x,y,id\n" + "".join(f"{k % 2},{k * 1.5},{k}\n" for k in range(40)))
    about = {"levels": {"x": ["1", "0", "2"]}, "comment": "ours"}
    (folder / "about.json").write_text(json.dumps(about))
    run("inspect", folder, "--write")
    written = json.loads((folder / "about.json").read_text())
    assert written == about | {"kind": "mixed", "columns": {"y": "continuous"}}
    assert "--ignore id" in capsys.readouterr().out


def test_columns_left_out_stay_left_out(tmp_path, capsys):
    folder = tmp_path / "data"
    folder.mkdir()
    for silo in "ab":
        (folder / f"{silo}.csv").write_text("x,y,id\n" + "".join(f"{k % 2},{k * 1.5},{k}\n" for k in range(4000)))
    run("inspect", folder, "--write", "--ignore", "id")
    assert "needs --ignore" not in capsys.readouterr().out
    written = json.loads((folder / "about.json").read_text())
    assert written["ignore"] == ["id"]
    assert "id" not in written["columns"]
    assert learn(folder, epsilon=8, engine="inline").result.structure.variables == ("x", "y")
    run("inspect", folder, "--write", "--ignore", "y")
    assert json.loads((folder / "about.json").read_text())["ignore"] == ["id", "y"]


def test_options_name_columns_that_a_declaration_leaves_out(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.csv").write_text("x,y,id\n" + "".join(f"{k % 7},{k * 1.5},{k % 5}\n" for k in range(40)))
    (folder / "about.json").write_text(json.dumps({"ignore": ["id", "y"]}))
    assert read_folder(folder).schema.variables == ("x",)
    assert read_folder(folder, Reading(only=("x", "y"))).schema.variables == ("x", "y")
    assert read_folder(folder, Reading(ignore=("x", "y"), only=("id",))).schema.variables == ("id",)


@pytest.mark.parametrize("wrong", ["id", [1], {"id": True}])
def test_columns_to_leave_out_are_a_list_of_names(tmp_path, wrong):
    (tmp_path / "about.json").write_text(json.dumps({"ignore": wrong}))
    with pytest.raises(BadInput, match=r"ignore: .* is not (a list|text), such as \[\"id\"\]"):
        read_about(tmp_path)
