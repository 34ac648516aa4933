import inspect
import os
import re
from pathlib import Path
from typing import get_type_hints

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn, prepare
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.flows.api.learning import LearnKeywords, errors_in_python
from fedbnsl.flows.engines import resuming
from fedbnsl.flows.options.learn import LearnOptions
from fedbnsl.tracking.checkpoint import CheckpointNotWritten, load


def test_learn_takes_a_folder_data_or_frames_and_gives_the_same(example):
    from fedbnsl.data.folder.folder import read_folder

    data = read_folder(example)
    frames = {silo: pd.DataFrame(table, columns=list(data.schema.variables)) for silo, table in data.tables.items()}
    folder, memory, frame = (learn(source, "notears-admm", seed=2) for source in (example, data, frames))
    assert folder.weights.equals(memory.weights)
    assert folder.weights.equals(frame.weights)
    assert folder.metrics["shd"] is not None
    assert frame.metrics["shd"] is None
    assert nx.is_directed_acyclic_graph(folder.graph)
    assert list(folder.rounds["round"]) == list(range(1, folder.metrics["rounds"] + 1))
    assert set(folder.model.nodes()) == set(data.schema.variables)
    assert folder.model == frame.model


def test_frames_of_labels_are_discrete_data_and_their_model_can_be_asked():
    rng = np.random.default_rng(0)
    frames = {}
    for silo in "ab":
        rain = rng.random(300) < 0.4
        wet = rain ^ (rng.random(300) < 0.1)
        frames[silo] = pd.DataFrame({"rain": np.where(rain, "yes", "no"), "grass": np.where(wet, "wet", "dry")})
    found = learn(frames, "fed-pc")
    assert found.result.schema.levels == {"rain": ("no", "yes"), "grass": ("dry", "wet")}
    assert found.model.check_model()
    assert set(found.model.simulate(5, seed=1, show_progress=False)["grass"]) <= {"dry", "wet"}
    frames["b"].loc[3, "grass"] = ""
    with pytest.raises(BadInput, match=r"^b: row 4, column 'grass': the cell is empty, and missing='refuse' allows"):
        learn(frames, "fed-pc", missing="refuse")
    complete = learn(frames, "fed-pc", missing="complete-rows")
    assert complete.result.schema.rows == {"a": 300, "b": 299}
    assert learn(frames, "fed-pc", ignore=["grass"], missing="refuse").result.schema.variables == ("rain",)


def test_prepare_returns_the_data_and_writes_them(tmp_path):
    data = prepare("homogeneous", tmp_path / "out", variables=4, silos=2, rows=20, seed=1)
    assert (tmp_path / "out" / "silo-2.csv").exists()
    assert data.schema.rows == {"silo-1": 20, "silo-2": 20}


def test_outputs_are_written_where_asked(example, tmp_path):
    learned = learn(example, "notears-admm", out=tmp_path / "out")
    assert learned.folder == tmp_path / "out"
    assert (tmp_path / "out" / "structure.csv").exists()


@pytest.mark.slow
def test_through_prefect_and_dask_it_gives_the_same(server, example, tmp_path):
    asked = {"algorithm": "notears-admm", "rounds": 4, "seed": 3}
    alone = learn(example, **asked)
    learned = learn(example, engine="prefect", out=tmp_path / "out", **asked)
    assert learned.weights.equals(alone.weights)
    assert learned.model == alone.model
    assert learned.folder == tmp_path / "out"
    assert (tmp_path / "out" / "report.html").exists()
    data = prepare("homogeneous", variables=4, silos=2, rows=20, seed=1)
    with pytest.raises(BadInput, match="the engine prefect reads a folder"):
        learn(data, engine="prefect")


@pytest.mark.slow(60)
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_run_that_a_full_disk_has_stopped_is_continued_by_the_same_call(
    server, example, tmp_path, monkeypatch, capsys
):
    """The checkpoint after round 3 finds no room; the call then makes no round twice and gives the same bits."""
    out, save = tmp_path / "out", resuming.save

    def full_at_round_3(path, checkpoint):
        if checkpoint.number == 3:
            path.with_name(f".{path.name}-{os.getpid()}").symlink_to("/dev/full")
        save(path, checkpoint)

    asked = {"algorithm": "notears-admm", "rounds": 4, "seed": 3}
    with monkeypatch.context() as patch:
        patch.setattr(resuming, "save", full_at_round_3)
        with pytest.raises(CheckpointNotWritten) as stopped:
            learn(example, engine="prefect", out=out, **asked)
    why = f"{out / 'checkpoint.bin'}: the checkpoint cannot be written (No space left on device): make room on the disk"
    assert str(stopped.value) == f"{why}; to continue: fedbnsl learn --resume {out}"
    assert load(out / "checkpoint.bin").number == 2
    continued = learn(example, engine="prefect", out=out, **asked)
    assert f"continuing the unfinished run in {out}" in capsys.readouterr().err
    assert list(continued.rounds["round"]) == [1, 2, 3, 4]
    assert continued.weights.equals(learn(example, **asked).weights)


def test_what_cannot_be_learned_from_is_bad_input(example):
    with pytest.raises(BadInput, match="'speed' is neither an option of learn nor a parameter of auto"):
        learn(example, speed=1)
    with pytest.raises(BadInput, match="engine is 'warp'"):
        learn(example, engine="warp")
    with pytest.raises(BadInput, match="b: column 'y' is missing"):
        learn({"a": pd.DataFrame({"x": [1, 2], "y": [2, 1]}), "b": pd.DataFrame({"x": [1, 2]})})
    with pytest.raises(BadInput, match="data is a int"):
        learn(5)


def test_tables_are_read_as_about_says():
    codes = [np.random.default_rng(seed).integers(0, 3, (60, 2)) * 1.0 for seed in (0, 1)]
    assert learn(codes, about={"kind": "discrete"}, diagnose=False).result.schema.kind == "discrete"
    assert learn(codes, about={"kind": "continuous"}, diagnose=False).result.schema.kind == "continuous"
    with pytest.raises(BadInput, match="about cannot be written as JSON: Object of type ndarray"):
        learn(codes, about={"kind": np.eye(2)})


def test_a_column_of_silos_gives_the_same_as_a_table_a_silo():
    data = prepare("homogeneous", variables=4, silos=3, rows=60, seed=1)
    frames = {silo: pd.DataFrame(rows, columns=data.schema.variables) for silo, rows in data.tables.items()}
    whole = pd.concat([frame.assign(hospital=silo) for silo, frame in frames.items()])
    found = learn(whole, "notears-admm", by="hospital", rounds=3)
    assert found.result.schema.rows == data.schema.rows
    assert found.weights.equals(learn(frames, "notears-admm", rounds=3).weights)
    assert np.allclose(found.weights, learn(list(data.tables.values()), "notears-admm", rounds=3).weights)


def test_what_is_said_of_tables_is_refused_where_there_are_none(example):
    data = prepare("homogeneous", variables=3, silos=2, rows=20, seed=1)
    with pytest.raises(BadInput, match=r"is for tables in memory: the silos of a folder are its files"):
        learn(example, about={})
    with pytest.raises(BadInput, match=r"by is for one file with the rows of all silos, but it has silo-1.csv"):
        learn(example, by="x1")
    for asked in ({"by": "x1"}, {"about": {}}):
        with pytest.raises(BadInput, match=r"a FederatedData is already read|already has its silos"):
            learn(data, **asked)


def test_a_parameter_that_no_algorithm_has_is_noticed_before_the_data_are_read():
    with pytest.raises(BadInput, match=r"unknown setting 'rouns', which no algorithm has: did you mean rounds?"):
        learn("no_such_folder", rouns=3)


def test_of_a_private_table_that_cannot_be_read_no_cell_is_told():
    odd = {"north": pd.DataFrame({"x": [1, "secret", [2]]})}
    with pytest.raises(BadInput, match=r"cannot be read as a table: .*secret"):
        learn(odd)
    with pytest.raises(BadInput, match=r"silo 'north': cannot be read as a table$"):
        learn(odd, epsilon=1.0)


def test_the_keywords_for_editors_are_the_options_of_learn():
    declared = get_type_hints(LearnKeywords)
    fields = {name: field.annotation for name, field in LearnOptions.model_fields.items()}
    assert declared == {name: kind for name, kind in fields.items() if name not in ("algorithm", "params", "by")} | {
        "out": str | Path | None
    }


def test_help_explains_every_option():
    text = inspect.getdoc(learn)
    assert [name for name, field in LearnOptions.model_fields.items() if name != "params" and name not in text] == []
    assert LearnOptions.model_fields["smoothing"].description in text


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"held_out": True}, "held_out: it is for numbers"),
        ({"algorithm": "secure-linear", "epsilon": 1.0}, "epsilon: secure-linear is not private"),
        ({"deseasonalise": 3}, "deseasonalise is for time series"),
        ({"tune": "alpha=.1,.2"}, "name it with algorithm"),
    ],
)
def test_errors_name_keywords_and_no_options_of_the_command_line(keywords, message):
    """Before, `learn(frames, held_out=True)` complained about `--held-out`."""
    labels = pd.DataFrame({"a": [*"xyxyxxyy"] * 20, "b": [*"uvvuuvuv"] * 20})
    with pytest.raises(BadInput, match=re.escape(message)) as raised:
        learn([labels, labels], **keywords)
    assert "--" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("use --required a->b, or --no-diagnose with -p l1=3", "use required_arcs a->b, or diagnose=False with l1=3"),
        ("name them in --no-parents", "name them in no_parents"),
        ("go on with --resume runs/a", "go on with --resume runs/a"),
    ],
)
def test_words_of_the_command_line_become_keywords(text, said):
    with pytest.raises(BadInput) as raised, errors_in_python():
        raise BadInput(text)
    assert str(raised.value) == said


def test_options_may_have_the_names_of_the_command_line():
    data = prepare("homogeneous", variables=3, silos=2, rows=100, seed=0)
    named, short = (
        learn(data, "secure-boss", bootstrap=0, **{name: "x1->x2"}) for name in ("required_arcs", "required")
    )
    assert short.result.knowledge.required == named.result.knowledge.required == (("x1", "x2"),)
    assert learn(data, "secure-boss", bootstrap=0, forbidden="x1->x2").result.knowledge.forbidden
    with pytest.raises(BadInput, match=r"^required and required_arcs are the same option: give one of them"):
        learn(data, required="x1->x2", required_arcs="x1->x2")
