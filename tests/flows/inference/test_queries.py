"""`fedbnsl query`, `simulate` and `predict`: from a folder to answers in its own units and labels."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import fedbnsl
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters.inference import Event, NetworkQuery
from fedbnsl.algorithms.parameters.networks import linear_network
from fedbnsl.flows.cli.main import main
from fedbnsl.flows.inference.queries import _series, interventions, parse


def rows_of(seed, n):
    """income (lognormal) → spent, and smoke → disease."""
    rng = np.random.default_rng(seed)
    logs = rng.normal(3, 1, n)
    return pd.DataFrame(
        {
            "income": np.exp(logs).round(3),
            "spent": (2 * logs + rng.normal(size=n)).round(4),
        }
    )


def run(words):
    """Run the command, which must succeed."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    """The folder of a run on labels."""
    rng, folder = np.random.default_rng(1), tmp_path_factory.mktemp("labels") / "data"
    folder.mkdir()
    for silo, n in (("a", 900), ("b", 2100)):
        smoke = rng.random(n) < 0.3
        ill = rng.random(n) < np.where(smoke, 0.6, 0.1)
        pd.DataFrame({"smoke": np.where(smoke, "yes", "no"), "disease": np.where(ill, "ill", "well")}).to_csv(
            folder / f"{silo}.csv", index=False
        )
    fedbnsl.learn(folder, tiers="smoke<disease", out=folder.parent / "run")
    return folder.parent / "run"


@pytest.fixture(scope="module")
def logs():
    """A run on numbers of which one is learned as its logarithm."""
    return fedbnsl.learn({"a": rows_of(1, 800), "b": rows_of(2, 1700)}, transform="income=log", seed=1)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("P(a)", NetworkQuery(("a",))),
        (" P( a , b b | c = 1 )", NetworkQuery(("a", "b b"), given={"c": "1"})),
        (
            "P(a=yes, b>3 | do(c=x, d=-1.5), e=2)",
            NetworkQuery((), (Event("a", "=", "yes"), Event("b", ">", "3")), {"e": "2"}, {"c": "x", "d": "-1.5"}),
        ),
        ("P(x[t-1] | y[t-2]=0)", NetworkQuery(("x[t-1]",), given={"y[t-2]": "0"})),
        ("P(size (cm) < 4)", NetworkQuery((), (Event("size (cm)", "<", "4"),))),
    ],
)
def test_a_query_is_read_as_it_is_written(text, query):
    assert parse(text) == query


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "P()",
        "P(|a=1)",
        "P(a |)",
        "P(a | b)",
        "P(a | b=)",
        "P(a | =1)",
        "P(a | b=1, b=2)",
        "P(a | do(b))",
        "P(a, b=1)",
    ],
)
def test_other_texts_are_refused(text):
    with pytest.raises(BadInput):
        parse(text)


def test_interventions_of_the_command_line():
    assert interventions(["a=1", " b = x=y"]) == {"a": "1", "b": "x=y"}
    for words in (["a"], ["=1"], ["a="], ["a=1", "a=2"]):
        with pytest.raises(BadInput, match="--do"):
            interventions(words)


def test_evidence_on_an_effect_and_an_intervention_on_it_differ(labels, capsys):
    def share(text):
        run(["query", str(labels), text, "--json"])
        found = json.loads(capsys.readouterr().out)
        assert found["exact"]
        return {tuple(one["labels"].values()): one["probability"] for one in found["probabilities"]}

    seen, done = share("P(smoke | disease=ill)"), share("P(smoke | do(disease=ill))")
    assert seen["yes",] == pytest.approx(0.18 / (0.18 + 0.07), abs=0.04)
    assert done["yes",] == pytest.approx(0.3, abs=0.03)
    assert share("P(disease=ill | do(smoke=yes))")[()] == pytest.approx(0.6, abs=0.04)


def test_an_answer_says_what_it_rests_on(labels, capsys):
    run(["query", str(labels), "P(disease | do(smoke=yes))"])
    printed = capsys.readouterr().out
    assert "disease=ill: 0." in printed
    assert "Model: counts in 3,000 rows" in printed
    assert "Exact for this model." in printed
    assert "do(...) takes the learned graph and its directions as true" in printed
    assert "The data leave directions open" not in printed


def test_numbers_are_in_the_units_of_the_data(logs):
    found = logs.query("P(income | spent=6)").answer
    pooled = pd.concat([rows_of(1, 800), rows_of(2, 1700)])
    near = pooled[(pooled["spent"] - 6).abs() < 0.25]["income"]
    assert found.mean is None
    assert found.quantiles[0.5] == pytest.approx(near.median(), rel=0.1)
    assert found.quantiles[0.95] == pytest.approx(near.quantile(0.95), rel=0.2)
    share = logs.query("P(income>40)").answer.probabilities[()]
    assert share == pytest.approx((pooled["income"] > 40).mean(), abs=0.02)
    assert logs.query("P(spent | income=50)").answer.mean == pytest.approx(2 * np.log(50), abs=0.1)


def test_simulated_rows_have_the_distribution_of_the_data(logs, labels):
    drawn = logs.simulate(20_000, seed=3)
    pooled = pd.concat([rows_of(1, 800), rows_of(2, 1700)])
    assert drawn["income"].median() == pytest.approx(pooled["income"].median(), rel=0.06)
    assert np.log(drawn["income"]).corr(drawn["spent"]) == pytest.approx(
        np.log(pooled["income"]).corr(pooled["spent"]), abs=0.02
    )
    pd.testing.assert_frame_equal(drawn, logs.simulate(20_000, seed=3))
    set_to = fedbnsl.load(labels).simulate(5000, do={"smoke": "yes"})
    assert set(set_to["smoke"]) == {"yes"}
    assert (set_to["disease"] == "ill").mean() == pytest.approx(0.6, abs=0.05)


def test_a_simulated_series_follows_its_model():
    rng = np.random.default_rng(4)
    tables = {}
    for silo in "ab":
        X = np.zeros((700, 2))
        for t in range(1, 700):
            X[t, 0] = 0.7 * X[t - 1, 0] + rng.normal()
            X[t, 1] = 0.9 * X[t, 0] + 0.2 * X[t - 1, 1] + rng.normal()
        tables[silo] = pd.DataFrame({"time": np.arange(700), "u": X[:, 0], "v": X[:, 1]})
    found = fedbnsl.learn(tables, time="time", seed=1)
    series = found.simulate(6000, seed=2)
    assert series["u"].autocorr(1) == pytest.approx(0.7, abs=0.06)
    held = found.simulate(3000, do={"u": 5.0}, seed=2)
    assert set(held["u"]) == {5.0}
    assert held["v"].mean() == pytest.approx(0.9 * 5 / (1 - 0.2), abs=0.4)


@pytest.mark.parametrize(("weight", "refused"), [(0.99, False), (1.0, True), (1.2, True)])
def test_a_series_that_is_not_stationary_is_not_simulated(weight, refused):
    """A unit root counts, too; with `do` on the only such variable, the others are stationary."""
    structure = Structure(("a", "b"), np.zeros((2, 2)), lagged=np.array([[[weight, 0.0], [0.0, 0.5]]]))
    network = linear_network(structure, *(np.ones(2),) * 4)
    rng = np.random.default_rng(0)
    if refused:
        with pytest.raises(BadInput, match=f"not stationary: their spectral radius is {weight:g}, not below 1"):
            _series(network, 50, {}, rng)
    else:
        assert _series(network, 50, {}, rng).shape == (50, 2)
    assert np.isfinite(_series(network, 50, {"a": 1.0}, rng)).all()


def test_a_simulated_series_remembers_each_lag_by_itself():
    rng = np.random.default_rng(6)
    tables = {}
    for silo, rows in (("a", 500), ("b", 900)):
        X = np.zeros((rows, 2))
        for t in range(2, rows):
            X[t, 0] = 0.8 * X[t - 1, 0] + rng.normal()
            X[t, 1] = 0.9 * X[t - 2, 0] + rng.normal()
        tables[silo] = pd.DataFrame({"time": np.arange(rows), "u": X[:, 0], "v": X[:, 1]})
    found = fedbnsl.learn(tables, "var", lags=2, time="time", seed=1)
    drawn, pooled = found.simulate(6000, seed=2), pd.concat(tables.values())
    for lag in (0, 1, 2, 3):
        recorded = pooled["u"].shift(lag).corr(pooled["v"])
        assert drawn["u"].shift(lag).corr(drawn["v"]) == pytest.approx(recorded, abs=0.06)
    assert drawn["u"].autocorr(1) == pytest.approx(0.8, abs=0.06)


def test_empty_cells_of_a_table_are_predicted(labels, tmp_path, capsys):
    table, out = tmp_path / "new.csv", tmp_path / "predicted.csv"
    table.write_text("disease,smoke,other\nill,yes,1\nill,,2\n,no,3\n")
    run(["predict", str(labels), str(table), "--out", str(out)])
    found = pd.read_csv(out)
    assert list(found.columns) == ["smoke", "disease", "P(smoke)", "P(disease)"]
    assert found["smoke"].tolist() == ["yes", "yes", "no"]
    assert found["disease"].tolist() == ["ill", "ill", "well"]
    assert found["P(smoke)"].isna().tolist() == [True, False, True]
    assert found["P(disease)"][2] == pytest.approx(0.9, abs=0.03)
    run(["predict", str(labels), str(table), "--target", "smoke"])
    assert capsys.readouterr().out.splitlines()[1].startswith("yes,ill,0.7")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["predict", "new.csv", "--target", "age"], "there is no variable 'age'"),
        (["predict", "full.csv"], "no cell is empty: give --target NAME"),
        (["predict", "bad.csv"], "bad.csv: row 2, column 'smoke': 'maybe' is not one of its labels no, yes"),
        (["predict", "other.csv"], "none of its columns is a variable of the model: smoke, disease"),
        (["predict", "new.csv", "--out", "full.csv"], "full.csv: cannot be written: File exists"),
        (["simulate", "--rows", "0"], "rows is 0: it must be from 1 to"),
        (["simulate", "--do", "age=3"], "there is no variable 'age'"),
        (["query", "P(age)"], "there is no variable 'age'"),
        (["query", "disease"], "'disease' is not a query: write it as P"),
    ],
)
def test_errors_are_one_line(words, message, labels, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "new.csv": "smoke,disease\nyes,\n",
        "full.csv": "smoke,disease\nyes,ill\n",
        "bad.csv": "smoke,disease\nyes,\nmaybe,ill\n",
        "other.csv": "x\n1\n",
    }.items():
        (tmp_path / name).write_text(text)
    before = sorted(tmp_path.iterdir()), (tmp_path / "full.csv").read_text()
    with pytest.raises(SystemExit) as ended:
        main([words[0], str(labels), *words[1:]])
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert (sorted(tmp_path.iterdir()), (tmp_path / "full.csv").read_text()) == before


def test_a_run_without_a_model_has_no_answers(tmp_path):
    found = fedbnsl.learn({"a": rows_of(1, 300), "b": rows_of(2, 300)}, algorithm="notears-voting", parameters=False)
    for ask in (lambda: found.query("P(income)"), lambda: found.simulate(5)):
        with pytest.raises(BadInput, match="queries need a model"):
            ask()


@pytest.fixture(scope="module")
def mixed():
    """x — y — g, of which the data leave all directions open."""
    rng, tables = np.random.default_rng(0), {}
    for silo in "ab":
        x = rng.normal(size=400)
        y = x + rng.normal(size=400)
        g = np.where(rng.random(400) < 1 / (1 + np.exp(-y)), "yes", "no")
        tables[silo] = pd.DataFrame({"x": x, "y": y, "g": g})
    return tables


def test_what_the_data_leave_open_has_no_answer_after_an_intervention(mixed):
    found = fedbnsl.learn(mixed, "secure-boss", bootstrap=0)
    (effect,) = found.effect("x", "y").effects
    assert effect.value is None
    for ask in (
        lambda: found.query("P(y | do(x=1))"),
        lambda: found.query("P(g | do(x=1))"),
        lambda: found.query("P(g=yes | do(x=1), y=0)"),
        lambda: found.simulate(10, do={"x": 1.0}),
    ):
        with pytest.raises(
            BadInput, match=r"do\(x\) is not identified: .* learn again with --required 'x->y' or 'y->x'"
        ):
            ask()
    assert found.query("P(y | x=1)").answer.mean == pytest.approx(1, abs=0.1)
    known = fedbnsl.learn(mixed, "secure-boss", bootstrap=0, required="x->y")
    assert known.query("P(y | do(x=1))").answer.mean == pytest.approx(1, abs=0.1)
    assert known.effect("x", "y").effects[0].value == pytest.approx(1, abs=0.1)


def test_the_empty_cells_of_a_data_frame_are_predicted_like_those_of_a_file(mixed, tmp_path):
    found = fedbnsl.learn(mixed, "secure-boss", bootstrap=0)
    frame = pd.DataFrame({"g": ["yes", None, "no"], "x": [0.1, np.nan, 2], "y": [np.nan, 1.0, 2.0]})
    frame.to_csv(tmp_path / "table.csv", index=False)
    pd.testing.assert_frame_equal(found.predict(frame), found.predict(tmp_path / "table.csv"))
    pd.testing.assert_frame_equal(found.predict(frame, ["g"]), found.predict(str(tmp_path / "table.csv"), ["g"]))
    for table, message in (
        (pd.DataFrame({"x": ["bad"], "y": [1.0]}), "table: row 1, column 'x': 'bad' is not a number"),
        (pd.DataFrame({"g": ["maybe"], "y": [np.nan]}), "table: row 1, column 'g': 'maybe' is not one of its labels"),
        (frame.dropna(), "table: no cell is empty"),
        ({"x": [1]}, "table is a dict: give a DataFrame"),
    ):
        with pytest.raises(BadInput, match=f"^{re.escape(message)}"):
            found.predict(table)


def test_integers_of_a_data_frame_with_gaps_are_labels(tmp_path):
    rng, tables = np.random.default_rng(1), {}
    for silo in "ab":
        a = rng.integers(1, 3, 300)
        tables[silo] = pd.DataFrame({"a": a, "b": np.where(rng.random(300) < 0.85, a, 3 - a)}).astype(str)
    found = fedbnsl.learn(tables, "secure-boss", bootstrap=0)
    frame = pd.DataFrame({"a": [1, 2, None], "b": [None, 2, 1]})  # pandas makes 1.0 of 1
    assert found.predict(frame)[["a", "b"]].to_numpy().tolist() == [["1", "1"], ["2", "2"], ["1", "1"]]
