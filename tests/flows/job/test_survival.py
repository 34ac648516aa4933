"""Runs on data with survival outcomes: the columns, the graph with its sinks, and what is written of them."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.core.protocol import Round, Traffic
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.pag import ARROW, TAIL
from fedbnsl.data.federated import deal_rows
from fedbnsl.data.folder import batches
from fedbnsl.data.folder.about import write_about
from fedbnsl.data.folder.folder import read_folder, read_schema, write_folder
from fedbnsl.flows.api.loading import load
from fedbnsl.flows.job import survival as step
from fedbnsl.tasks.silo.policy import NotAllowed
from tests.flows.registries import PARENTS, write_registry


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    return write_registry(tmp_path_factory.mktemp("registry") / "data", truth=True)


@pytest.fixture(scope="module")
def found(registry):
    return learn(registry, out=registry.parent / "run", bootstrap=4, seed=1)


def parents_of(result, name="death"):
    structure = result.structure
    return {structure.variables[i] for i in np.flatnonzero(structure.weights[:, structure.variables.index(name)])}


def test_the_columns_of_an_outcome_are_no_variables(registry):
    data = read_folder(registry)
    assert data.schema.variables == ("age", "smoking", "pressure", "noise")
    assert data.schema.survival == {"death": ("days", "died")}
    assert data.schema.nodes[-1] == "death"
    frame = pd.read_csv(registry / "south.csv")
    np.testing.assert_array_equal(data.survival["south"], frame[["days", "died"]])
    np.testing.assert_array_equal(data.tables["south"][:, 0], frame["age"])
    assert data.truth.variables == data.schema.nodes


def test_the_outcome_is_a_sink_with_its_true_parents(found):
    result = found.result
    assert parents_of(result) == PARENTS
    assert not result.structure.weights[-1].any()
    (one,) = result.survival
    assert one.node.parents == ("age", "smoking")
    weight = result.structure.weights[result.structure.variables.index("age"), -1]
    assert weight == one.node.terms[0].coefficient == pytest.approx(0.06, abs=0.01)
    assert result.basis_of(next(edge for edge in result.edges if edge.target == "death")) == "survival outcome"
    assert any(line.startswith("death is a sink") for line in result.basis)
    assert result.metrics["survival_bytes"] == one.bytes_sent > 0


def test_the_graph_of_the_other_variables_is_that_without_the_outcome(registry, found):
    without = learn(registry, ignore="days,died", bootstrap=0, seed=1)
    own = found.result.structure.among(without.result.structure.variables)
    np.testing.assert_array_equal(own.weights, without.result.structure.weights)
    assert without.result.survival == ()
    assert without.result.truth.variables == without.result.structure.variables


def test_scores_compare_with_a_truth_that_has_the_outcome(found):
    assert found.result.truth.variables[-1] == "death"
    assert found.result.metrics["true_edges"] == 5
    into = [edge for edge in found.result.compared_edges if edge.target == "death"]
    assert {edge.category for edge in into} == {"right"}


def test_masks_change_nothing(registry, found):
    masked = learn(registry, secure=True, bootstrap=0, seed=1)
    one, other = ([term.coefficient for term in run.result.survival[0].node.terms] for run in (found, masked))
    np.testing.assert_allclose(one, other, atol=1e-9)
    lines = [line for own in found.result.disclosed.values() for line in own if line.part.startswith("survival-1")]
    assert {(line.statistic, line.masked) for line in lines if line.algorithm == "survival"} == {("Newton terms", True)}


def test_what_is_written_is_read_again(registry, found):
    folder = registry.parent / "run"
    again = load(folder).result
    assert again.survival == found.result.survival
    assert again.structure.variables == found.result.structure.variables
    np.testing.assert_array_equal(again.structure.weights, found.result.structure.weights)
    assert again.schema.survival == {"death": ("days", "died")}
    assert again.confidence.strengths.variables == again.schema.variables
    rows = pd.read_csv(folder / "survival.csv")
    assert rows["term"].tolist() == ["age", "smoking=former", "smoking=current"]
    assert rows["low"].lt(rows["hazard_ratio"]).all()
    assert rows["hazard_ratio"].lt(rows["high"]).all()
    edges = pd.read_csv(folder / "structure.csv").set_index("target")
    assert edges.loc["death", "strength"].isna().all()
    assert edges.drop("death")["strength"].notna().all()


def test_page_and_terminal_state_the_hazard_ratios(registry, found):
    page = (registry.parent / "run" / "report.html").read_text()
    assert "Survival: death" in page
    assert "the hazard of death is" in page
    assert "The probability of no death until a time, by " in page
    from fedbnsl.tracking.report.sections import SECTIONS

    (line,) = next(one for one in SECTIONS if one.name == "survival").lines(found.result)
    assert line.startswith("hazard ratios of death: age 1.0")


def test_a_notebook_states_the_hazard_ratios_and_draws_the_curves(found, rendered):
    assert "<li>hazard ratios of death: age 1.0" in found._repr_html_()
    (axes,) = found.plot_survival("death").axes
    assert len(axes.lines) == 3
    with pytest.raises(BadInput, match=r"'age' is no survival outcome: .*death"):
        found.plot_survival("age")


@pytest.mark.parametrize("learner", ["secure-boss", "secure-ges", "fed-pc", "fed-fci", "secure-linear", "fed-sparse"])
@pytest.mark.parametrize("kind", ["continuous", "discrete"])
def test_every_learner_gets_the_outcome_as_a_sink(tmp_path, learner, kind):
    if kind == "discrete" and learner in ("secure-linear", "fed-sparse"):
        pytest.skip("learns from numbers")
    data = write_registry(tmp_path / "data", 900, kind=kind)
    result = learn(data, learner, bootstrap=0, parameters=False, diagnose=False).result
    assert result.schema.kind == kind
    assert parents_of(result) == PARENTS
    into = result.structure.weights[:, -1]
    if result.structure.kind == "pag":
        assert set(into[into != 0]) == {ARROW}
        assert set(result.structure.weights[-1][into != 0]) == {TAIL}
    else:
        assert not result.structure.weights[-1].any()


@pytest.mark.parametrize("kind", ["continuous", "discrete"])
def test_posterior_and_held_out_scores_are_of_the_other_variables(tmp_path, kind):
    data, held_out = write_registry(tmp_path / "data", 600, kind=kind), kind == "continuous"
    found = learn(data, bootstrap=4, posterior=100, held_out=held_out, out=tmp_path / "run")
    assert found.result.graph_posterior.posterior.variables == found.result.schema.variables
    assert bool(found.result.held_out.by_silo) == held_out
    assert load(tmp_path / "run").result.graph_posterior.posterior.graphs == 100
    effect = found.effect("smoking", "pressure")
    assert effect.effects[0].averaged is not None
    assert found.effect("smoking", "death", direct=True).value is not None
    assert set(found.features("death").parents) >= {"smoking"}


def test_several_outcomes_have_a_node_each(tmp_path):
    data = write_registry(tmp_path / "data", about={"survival": {"death": ["days", "died"], "fall": ["days", "fell"]}})
    for path in data.glob("*.csv"):
        frame = pd.read_csv(path)
        frame["fell"] = np.random.default_rng(1).integers(0, 2, len(frame))
        frame.to_csv(path, index=False)
    result = learn(data, bootstrap=0).result
    assert result.structure.variables[-2:] == ("death", "fall")
    assert result.survival[1].node.event == "fell"
    assert result.survival[1].node.hazards != result.survival[0].node.hazards
    assert parents_of(result, "death") == PARENTS


def test_knowledge_holds_for_the_outcome(registry):
    asked = {"required": "noise->death", "forbidden": "age->death", "tiers": "age<smoking,pressure,noise<death"}
    result = learn(registry, bootstrap=0, **asked).result
    assert "noise" in parents_of(result)
    assert "age" not in parents_of(result)
    edge = next(edge for edge in result.edges if (edge.source, edge.target) == ("noise", "death"))
    assert result.basis_of(edge) == "background knowledge"


def test_rows_that_are_complete_in_the_parents_enter_the_fit(tmp_path):
    data = write_registry(tmp_path / "data", gaps=True)
    modelled, complete = (learn(data, missing=how, bootstrap=0).result for how in ("model", "complete-rows"))
    frames = pd.concat([pd.read_csv(path) for path in data.glob("*.csv")])
    assert modelled.survival[0].node.rows == frames["days"].notna().sum()
    assert complete.survival[0].node.rows == len(frames.dropna())
    assert sum(complete.schema.rows.values()) == frames["noise"].notna().sum()
    assert parents_of(modelled) == parents_of(complete) == PARENTS
    with pytest.raises(BadInput, match=r"line 2, column 'noise': the cell is empty"):
        learn(data, missing="refuse")


def test_empty_times_alone_leave_the_rows_of_the_graph_complete(tmp_path):
    data = write_registry(tmp_path / "data", gaps=True)
    for path in data.glob("*.csv"):
        pd.read_csv(path).fillna({"noise": 0.5}).to_csv(path, index=False)
    schema = read_schema(data)
    assert schema.empty == {}
    assert schema.survival_empty["west"] == (10, 0)
    assert sum(learn(data, missing="complete-rows", bootstrap=0).result.schema.rows.values()) == 1500
    with pytest.raises(BadInput, match=r"column 'days': the cell is empty"):
        learn(data, missing="refuse")


def test_tables_in_memory_and_written_folders_have_the_outcome(registry, found, tmp_path):
    frames = {silo: pd.read_csv(registry / f"{silo}.csv") for silo in ("north", "south", "west")}
    about = json.loads((registry / "about.json").read_text())
    data = read_folder(registry)
    write_folder(tmp_path / "copy", data)
    expected = found.result.survival[0].node
    for again in (
        learn(frames, about=about, bootstrap=0),
        learn(tmp_path / "copy", bootstrap=0),
        learn(data, bootstrap=0),
    ):
        assert again.result.survival[0].node.terms == expected.terms
    for silo, frame in frames.items():
        pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "copy" / f"{silo}.csv"), frame, check_dtype=False)


def test_rows_that_are_dealt_again_keep_their_outcome(tmp_path):
    data = write_registry(tmp_path / "data", kind="discrete", gaps=True)
    whole = read_folder(data)
    rows = np.random.default_rng(0).permutation(sum(whole.schema.rows.values()))
    dealt = deal_rows(whole, {"one": rows[:700], "two": rows[700:]}, {})
    assert [sum(own) for own in zip(*dealt.schema.survival_empty.values(), strict=True)] == [30, 0]
    before = np.vstack([whole.whole_table(silo) for silo in whole.schema.silos])
    after = np.vstack([dealt.whole_table(silo) for silo in ("one", "two")])
    np.testing.assert_array_equal(after, before[rows])
    write_folder(tmp_path / "dealt", dealt)
    one, other = (learn(path, bootstrap=0).result.survival[0].node for path in (data, tmp_path / "dealt"))
    assert one.rows == other.rows
    assert one.limits == other.limits


def test_a_table_that_is_split_keeps_its_declared_outcome(tmp_path):
    from fedbnsl.data.splitting.partition import split_table

    data = write_registry(tmp_path / "data", 300)
    whole = pd.concat([pd.read_csv(path) for path in sorted(data.glob("*.csv"))])
    (tmp_path / "whole").mkdir()
    whole.to_csv(tmp_path / "whole" / "all.csv", index=False)
    write_about(
        tmp_path / "whole",
        json.loads((data / "about.json").read_text()) | {"kind": "mixed"},
        {"all": tmp_path / "whole" / "all.csv"},
    )
    parts = split_table(tmp_path / "whole" / "all.csv", silos=2, seed=1)
    assert parts.schema.survival == {"death": ("days", "died")}
    assert sum(len(own) for own in parts.survival.values()) == 300


# Bad input.


def changed(data, silo, row, column, cell):
    frame = pd.read_csv(data / f"{silo}.csv", dtype=str)
    frame.loc[row, column] = cell
    frame.to_csv(data / f"{silo}.csv", index=False)


@pytest.mark.parametrize(
    ("column", "cell", "fault"),
    [
        ("days", "-3", r"west\.csv: line 13, column 'days': -3 is not above 0"),
        ("days", "0", r"west\.csv: line 13, column 'days': 0 is not above 0"),
        ("days", "soon", r"west\.csv: line 13, column 'days': 'soon' is not a number"),
        ("died", "2", r"west\.csv: line 13, column 'died': '2' is not one of the levels 0, 1"),
        ("died", "yes", r"west\.csv: line 13, column 'died': 'yes' is not one of the levels 0, 1"),
    ],
)
def test_a_wrong_cell_is_named(tmp_path, column, cell, fault):
    data = write_registry(tmp_path / "data", 120)
    changed(data, "west", 11, column, cell)
    with pytest.raises(BadInput, match=fault):
        read_folder(data)


@pytest.mark.parametrize(
    ("about", "fault"),
    [
        ({"survival": {"death": ["days", "gone"]}}, "survival: 'gone' is not a column of the data"),
        ({"survival": {"death": ["days", "days"]}}, "needs a column of times and another one of its events"),
        ({"survival": {"a": ["days", "died"], "b": ["days", "died"]}}, "another one of its events"),
        ({"survival": {"days": ["days", "died"]}}, "'days' is the name of a column of another kind"),
        ({"survival": {"x": ["days", "died"], "died": ["days", "noise"]}}, "'died' is the name of a column of another"),
        ({"survival": {" ": ["days", "died"]}}, "the outcome has a name with spaces around it"),
        ({"levels": {"died": ["no", "yes"]}}, "the levels of 'died' are 0 and 1"),
        ({"levels": {"days": ["1", "2"]}}, "another key declares 'days'"),
        ({"columns": {"days": "discrete"}}, "another key declares 'days'"),
        ({"transform": {"days": "log"}}, "another key declares 'days'"),
        ({"columns": {"died": "count"}}, "another key declares 'died'"),
        ({"unit": {"died": "x"}}, "another key declares 'died'"),
        ({"kind": "time-series"}, "outcomes are columns of tables, and the data are time-series"),
        ({"survival": {"death": ["days"]}}, "survival: 'death'"),
        ({"survival": {"smoking": ["days", "died"]}}, "'smoking' has the name of another column"),
    ],
)
def test_a_wrong_declaration_is_refused_in_one_line(tmp_path, about, fault):
    data = write_registry(tmp_path / "data", 120, kind="continuous", about=about)
    with pytest.raises(BadInput, match=fault) as raised:
        learn(data, bootstrap=0)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"epsilon": 1.0}, "an ε does not cover survival outcomes.* ignore days,died"),
        ({"algorithm": "boss"}, "boss does not learn one graph over the silos: .* ignore days,died"),
        ({"required": "death->noise"}, "death is a survival outcome and cannot cause noise"),
    ],
)
def test_a_run_that_cannot_have_outcomes_is_refused(registry, options, fault):
    with pytest.raises(BadInput, match=fault):
        learn(registry, **options)


def test_a_graph_for_each_silo_has_no_outcomes(tmp_path):
    with pytest.raises(BadInput, match="notears-local does not learn one graph over the silos"):
        learn(write_registry(tmp_path / "data", 300, kind="continuous"), "notears-local")


def test_rows_in_passes_are_refused(registry, monkeypatch):
    monkeypatch.setattr(batches, "IN_MEMORY_BYTES", 0)
    with pytest.raises(BadInput, match="its rows exceed the memory limit, and survival outcomes need them in memory"):
        read_folder(registry)


def test_a_column_that_is_left_out_leaves_no_outcome(registry):
    schema = read_schema(registry, replace(read_folder.__defaults__[0], ignore=("died",)))
    assert schema.survival == {}
    assert "days" in schema.variables


# An exchange that fails costs the node only.


def test_a_refusing_owner_costs_only_the_node(registry, monkeypatch):
    def refuse(*arguments):
        raise NotAllowed("silo west: only sums of counts are allowed")

    monkeypatch.setattr(step, "extra_exchange", refuse)
    result = learn(registry, out=None, bootstrap=0).result
    (one,) = result.survival
    assert one.node is None
    assert one.reason == "Survival outcome death: no model, because silo west: only sums of counts are allowed."
    assert result.structure.variables[-1] == "death"
    assert parents_of(result) == set()


def test_a_lost_silo_costs_only_the_node(registry, monkeypatch):
    real = step.extra_exchange

    def lose(*arguments):
        found = real(*arguments)
        return replace(found, last=replace(found.last, outcome="silo lost", lost=("west",)))

    monkeypatch.setattr(step, "extra_exchange", lose)
    (one,) = learn(registry, bootstrap=0).result.survival
    assert one.why == "too few silos responded when death was fitted"


def test_a_run_that_lost_a_silo_asks_nothing_more(registry, monkeypatch):
    class Session:
        schema = read_schema(registry)

    last = Round(1, None, Traffic(), "silo lost", ("west",))
    (one,) = step.survival_outcomes(None, Session, last)
    assert "a silo was lost" in one.why


def test_an_outcome_with_few_events_has_a_reason(tmp_path):
    data = write_registry(tmp_path / "data", 300)
    for path in data.glob("*.csv"):
        frame = pd.read_csv(path)
        frame["died"] = 0
        frame.loc[0, "died"] = 1
        frame.to_csv(path, index=False)
    (one,) = learn(data, bootstrap=0, out=tmp_path / "run").result.survival
    assert "fewer than 6 rows have the event" in one.reason
    assert not (tmp_path / "run" / "survival.csv").exists()
    assert json.loads((tmp_path / "run" / "config.json").read_text())["survival"][0]["node"] is None
    assert load(tmp_path / "run").result.survival == (one,)


def test_inspect_proposes_the_outcome(tmp_path):
    from fedbnsl.data.folder.suggestions import suggestions

    data = write_registry(tmp_path / "data", 300)
    (data / "about.json").unlink()
    tables = read_folder(data)
    proposed = [line for line in suggestions(tables.schema, tables.tables) if "survival" in line]
    assert len(proposed) == 1
    assert '{"survival": {"died": ["days", "died"]}}' in proposed[0]
    renamed = tables.schema
    for old, new in (("died", "smoker"), ("days", "dose")):
        names = tuple(new if name == old else name for name in renamed.variables)
        levels = {new if name == old else name: own for name, own in renamed.levels.items()}
        other = replace(renamed, variables=names, levels=levels)
        assert not [line for line in suggestions(other, tables.tables) if "survival" in line]
