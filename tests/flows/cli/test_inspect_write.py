"""`fedbnsl inspect --write` drafts the `about.json` that a run with an ε needs."""

import json

import pytest

from fedbnsl import learn, prepare
from fedbnsl.algorithms.errors import BadInput
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
