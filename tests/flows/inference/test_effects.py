"""`fedbnsl effect` and `found.effect`: pooled estimates, ranges, assumptions, and one-line errors."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import fedbnsl
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.effects.answer import Candidate, Effect, EffectReport
from fedbnsl.algorithms.effects.identification import AdjustmentSet
from fedbnsl.algorithms.effects.linear import Estimate, adjusted_effect
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.flows.cli.effect import strongest_first
from fedbnsl.flows.cli.main import main
from fedbnsl.flows.inference import effect_regressions
from fedbnsl.flows.inference.effect_variability import _learned_anew
from fedbnsl.flows.inference.run_data import read_run_data
from fedbnsl.tracking.pictures.forest import draw_forest
from fedbnsl.tracking.report.statements import statements
from tests.flows.commands import run

ROWS = {"a": 150, "b": 400, "c": 950}


def linear_tables(seed=1, rows=ROWS):
    """z → x → m → y ← z, in shuffled columns, with an offset of each silo in every column."""
    rng = np.random.default_rng(seed)
    tables = {}
    for silo, n in rows.items():
        z = rng.normal(size=n)
        x = 0.8 * z + rng.normal(size=n)
        m = 1.2 * x + rng.normal(size=n)
        y = 0.9 * m - 1.1 * z + rng.normal(size=n)
        offsets = 5 * rng.normal(size=4)
        tables[silo] = pd.DataFrame(np.stack([m, z, y, x], axis=1) + offsets, columns=["m", "z", "y", "x"])
    return tables


def write(folder, tables, kind="continuous"):
    folder.mkdir()
    (folder / "about.json").write_text(json.dumps({"kind": kind}))
    for silo, table in tables.items():
        table.to_csv(folder / f"{silo}.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return write(tmp_path_factory.mktemp("data") / "study", linear_tables())


@pytest.fixture(scope="module")
def finished(study, tmp_path_factory):
    return fedbnsl.learn(study, "secure-linear", out=tmp_path_factory.mktemp("runs") / "dag", engine="inline")


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    rng = np.random.default_rng(1)
    z = rng.integers(0, 2, 6000)
    x = (rng.random(6000) < 0.25 + 0.5 * z).astype(int)
    y = (rng.random(6000) < 0.1 + 0.3 * x + 0.4 * z).astype(int)
    w = (rng.random(6000) < 0.5).astype(int)
    y = np.where(w == 1, y, (rng.random(6000) < 0.2 + 0.5 * y).astype(int))
    table = pd.DataFrame({"y": y, "z": z, "w": w, "x": x}).replace({0: "no", 1: "yes"})
    return write(tmp_path_factory.mktemp("data") / "labels", {"a": table[:1500], "b": table[1500:]}, "discrete")


@pytest.fixture(scope="module")
def of_labels(labels, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "labels"
    known = {"required_arcs": "z->x,x->y,z->y"}
    return fedbnsl.learn(labels, "secure-boss", out=out, engine="inline", small_cells="keep", **known)


def pooled_slope(tables, y, regressors):
    rows = np.vstack([(table - table.mean()).to_numpy() for table in tables.values()])
    place = list(next(iter(tables.values())).columns)
    return np.linalg.lstsq(rows[:, [place.index(one) for one in regressors]], rows[:, place.index(y)])[0][0]


def test_the_learned_graph_is_the_one_the_other_tests_rely_on(finished):
    edges = {(one, other) for one, other in finished.graph.edges}
    assert edges == {("z", "x"), ("x", "m"), ("m", "y"), ("z", "y")}


def test_from_the_rows_it_is_pooled_least_squares_with_an_offset_per_silo(study, finished):
    found = finished.effect("x", "y", data=study)
    assert found.value == pytest.approx(pooled_slope(linear_tables(), "y", ["x", "z"]), abs=1e-8)
    assert found.effects[0].candidates[0].covariates == ("z",)
    assert found.interval[0] < 0.9 * 1.2 < found.interval[1]
    direct = finished.effect("z", "y", direct=True, data=study)
    assert direct.value == pytest.approx(pooled_slope(linear_tables(), "y", ["z", "m"]), abs=1e-8)
    assert any("one masked exchange" in line for line in direct.rests_on)


def test_from_the_model_it_is_the_product_of_its_weights(finished):
    weights = finished.weights
    found = finished.effect("x", "y", compare=(2, 5))
    assert found.value == pytest.approx(3 * weights.loc["x", "m"] * weights.loc["m", "y"], rel=1e-9)
    both = finished.effect(["x", "m"], "y").effects
    assert both[0].status == "zero"
    assert both[1].value == pytest.approx(weights.loc["m", "y"], rel=1e-9)


def test_every_effect_states_what_it_rests_on(finished):
    found = finished.effect("x", "y")
    said = " ".join(found.rests_on)
    for part in ("taken as true", "No unmeasured confounding", "Linearity", "Source", "Sensitivity"):
        assert part in said
    assert "adjusted for z" in str(found)
    assert "no directed path" in str(finished.effect("y", "x"))


def test_the_sensitivity_that_is_stated_is_that_of_the_estimate(finished):
    found = finished.effect("x", "y")
    (one,) = found.effects
    sensitivity = one.candidates[0].sensitivity
    figures = [sensitivity.robustness, sensitivity.robustness_interval, sensitivity.partial_r2]
    assert len({f"{100 * figure:.1f}" for figure in figures}) == 3
    (line,) = (line for line in found.rests_on if line.startswith("Sensitivity"))
    assert re.findall(r"(\S+) %", line) == [f"{100 * figure:.1f}" for figure in figures]


def test_a_class_gives_a_range(study, tmp_path):
    """z — x is undirected in the class, because there is no collider at z or x."""
    found = fedbnsl.learn(study, "secure-boss", out=tmp_path / "cpdag", engine="inline")
    assert found.result.structure.kind == "cpdag"
    effect = found.effect("z", "x", data=study).effects[0]
    assert effect.status == "range"
    assert effect.bounds == pytest.approx((0.0, pooled_slope(linear_tables(), "x", ["z"])), abs=1e-8)
    assert effect.interval[1] > effect.bounds[1]
    assert "adjustment sets are possible" in effect.reason


def test_effects_of_labels_come_from_the_tables(capsys, of_labels):
    found = of_labels.effect("x", "y")
    assert found.effects[0].measure == "P(y = yes)"
    assert found.interval[0] < 0.5 * 0.3 + 0.5 * 0.5 * 0.3 < found.interval[1]
    turned = of_labels.effect("x", "y", compare=("yes", "no")).effects[0]
    assert turned.value == pytest.approx(-found.value)
    ratio = found.effects[0].odds_ratio
    assert 1 < ratio.interval[0] < ratio.value < ratio.interval[1]
    assert turned.odds_ratio.interval == pytest.approx((1 / ratio.interval[1], 1 / ratio.interval[0]))
    code, said, err = run(capsys, "effect", of_labels.folder, "--treatment", "x", "--outcome", "y")
    assert code == 0, err
    assert "no → yes on P(y = yes)" in said
    assert "g-formula" in said


def test_all_effects_on_an_outcome_as_json(capsys, finished):
    code, said, _ = run(capsys, "effect", finished.folder, "--all", "--outcome", "y", "--json")
    assert code == 0
    content = json.loads(said)
    assert {one["treatment"]: one["status"] for one in content["effects"]} == dict.fromkeys("mzx", "identified")
    assert content["effects"][2]["estimate"] == pytest.approx(finished.effect("x", "y").value, rel=1e-12)
    assert content["rests_on"]


def test_effects_that_are_zero_by_the_graph_are_one_entry(capsys, finished):
    """A table of labels has dozens of contrasts of treatments that do not affect the outcome."""
    lines = run(capsys, "effect", finished.folder, "--all", "--outcome", "z")[1].splitlines()
    assert lines[0] == "total effects of m, y, x on z: 0 by the graph"
    assert lines[1] == "  no directed path leads from them to z in the DAG, so the effect is zero"
    assert sum("0 by the graph" in line for line in lines) == 1
    lines = run(capsys, "effect", finished.folder, "--all", "--outcome", "x")[1].splitlines()
    assert lines[0].startswith("total effect of z: 0 → 1 on mean of x: +0.8")
    assert "total effects of m, y on x: 0 by the graph" in lines
    one = run(capsys, "effect", finished.folder, "--treatment", "y", "--outcome", "m")[1].splitlines()
    assert one[1] == "  no directed path leads from y to m in the DAG, so the effect is zero"


def test_an_adjustment_is_explained_once_for_each_treatment(capsys, tmp_path):
    rng = np.random.default_rng(3)
    x = rng.integers(0, 3, 900)
    y = (rng.random(900) < 0.2 + 0.3 * x).astype(int)
    table = pd.DataFrame({"x": np.array(["a", "b", "c"])[x], "y": np.array(["no", "yes"])[y]})
    folder = write(tmp_path / "labels", {"a": table[:400], "b": table[400:]}, "discrete")
    found = fedbnsl.learn(folder, "secure-boss", out=tmp_path / "run", engine="inline", required_arcs="x->y")
    lines = run(capsys, "effect", found.folder, "--all", "--outcome", "y")[1].splitlines()
    assert [line.split(" on ")[0] for line in lines[:1] + lines[2:3]] == [
        "total effect of x: a → c",
        "total effect of x: a → b",
    ]
    assert lines[1].startswith("  nothing to adjust for")
    assert not lines[3].strip()


@pytest.mark.slow
def test_both_engines_give_the_same_effect(capsys, server, study, finished, tmp_path):
    out = tmp_path / "prefect"
    code, _, err = run(capsys, "learn", study, "-a", "secure-linear", "--bootstrap", 0, "--no-diagnose", "--out", out)
    assert code == 0, err
    words = ("--treatment", "x", "--outcome", "y", "--json")
    one, other = (json.loads(run(capsys, "effect", folder, *words)[1]) for folder in (out, finished.folder))
    assert one["effects"] == other["effects"]


def test_from_the_rows_columns_are_transformed_as_in_the_run(tmp_path):
    """With logarithms, log1p of columns with zeros, and normal scores; each from its own option."""
    tables = {silo: np.exp(table.clip(-20, 20) / 4) for silo, table in linear_tables().items()}
    tables["a"].loc[3, "z"] = 0.0
    folder = write(tmp_path / "positive", tables)
    for option in ("log", "sqrt", "x=log,y=normal-scores"):
        known = {"required_arcs": "z->x,x->m,m->y,z->y"}
        found = fedbnsl.learn(folder, "secure-linear", engine="inline", transform=option, **known)
        own, again = found.effect("z", "y", direct=True), found.effect("z", "y", direct=True, data=folder)
        assert again.value == pytest.approx(own.value, rel=1e-6), option


@pytest.fixture(scope="module")
def of_both(tmp_path_factory):
    """Numbers and labels: z, sex → drug → ill → t ← z, with cells of z empty in one silo; the folder and the run."""
    rng, tables = np.random.default_rng(3), {}
    for number, (silo, n) in enumerate(ROWS.items()):
        z, sex = rng.normal(size=n), rng.integers(0, 2, n)
        drug = rng.random(n) < 1 / (1 + np.exp(-1.2 * z - 0.8 * sex + 0.3))
        ill = rng.random(n) < 1 / (1 + np.exp(-1.0 * drug - 1.1 * z + 0.3 + 0.4 * number))
        t = 2 * ill + 1.5 * z + rng.normal(size=n) + 5 * number
        words = {"drug": drug, "ill": ill, "sex": sex.astype(bool)}
        labels = {name: np.where(one, "yes", "no") for name, one in words.items()}
        tables[silo] = pd.DataFrame({"t": t, **labels, "z": 40 * z + 100})
        tables[silo]["stage"] = rng.choice(["i", "ii", "iii"], n)
    tables["b"].loc[:30, "z"] = np.nan
    folder = write(tmp_path_factory.mktemp("data") / "both", tables, "mixed")
    known = {"required_arcs": "sex->drug,z->drug,drug->ill,z->ill,ill->t,z->t", "no_parents": "stage"}
    out = tmp_path_factory.mktemp("runs") / "both"
    return folder, fedbnsl.learn(folder, "secure-boss", out=out, engine="inline", bootstrap=0, **known)


class TestRegressions:
    """Effects from regressions over the rows, in tables of numbers and labels."""

    def pooled(self, folder, columns):
        tables = {silo: pd.read_csv(folder / f"{silo}.csv").dropna() for silo in ROWS}
        silos = np.repeat(np.eye(3), [len(one) for one in tables.values()], axis=0)
        rows = pd.concat(tables.values(), ignore_index=True).replace({"no": 0.0, "yes": 1.0})
        return rows, np.column_stack([rows[columns].to_numpy(np.float64) / [1, 100], silos])

    def test_an_outcome_of_two_labels_is_the_pooled_logistic_regression(self, capsys, of_both):
        api, (folder, found) = pytest.importorskip("statsmodels.api"), of_both
        rows, design = self.pooled(folder, ["drug", "z"])
        fitted = api.Logit(rows["ill"].to_numpy(np.float64), design).fit(disp=0, tol=1e-12)
        risks = [fitted.predict(np.column_stack([np.full(len(rows), x), design[:, 1:]])).mean() for x in (0, 1)]
        one = found.effect("drug", "ill", data=folder).effects[0]
        assert one.candidates[0].covariates == ("z",)
        assert one.value == pytest.approx(risks[1] - risks[0], abs=1e-6)
        assert one.odds_ratio.value == pytest.approx(np.divide(*[p / (1 - p) for p in risks[::-1]]), abs=1e-6)
        words = ("--treatment", "drug", "--outcome", "ill", "--data", folder)
        code, said, err = run(capsys, "effect", found.folder, *words)
        assert code == 0, err
        for part in (
            f"{one.value:+.4g}",
            f"odds ratio {one.odds_ratio.value:.4g}",
            "an intercept per silo",
            "left out",
        ):
            assert part in said

    def test_a_total_effect_on_a_number_has_an_interval(self, of_both):
        api, (folder, found) = pytest.importorskip("statsmodels.api"), of_both
        rows, design = self.pooled(folder, ["drug", "z"])
        fitted = api.OLS(rows["t"].to_numpy(), design).fit()
        one = found.effect("drug", "t", data=folder).effects[0]
        assert one.value == pytest.approx(fitted.params[0], rel=1e-6)
        assert one.interval == pytest.approx(tuple(fitted.conf_int()[0]), rel=1e-6)
        assert found.effect("drug", "t").interval is None
        assert one.candidates[0].sensitivity is not None

    def test_all_treatments_share_one_exchange(self, of_both):
        folder, found = of_both
        every = {one.treatment: one for one in found.effect("sex", "t", data=folder).effects}
        assert every["sex"].status == "identified"
        assert found.effect("t", "ill", data=folder).effects[0].status == "zero"

    @pytest.mark.parametrize("outcome", ["ill", "t"])
    def test_doubly_robust_effects_agree_with_regressions_where_both_models_are_right(self, capsys, of_both, outcome):
        folder, found = of_both
        own = found.effect("drug", outcome, data=folder)
        other = found.effect("drug", outcome, data=folder, doubly_robust=True)
        error = other.effects[0].candidates[0].estimate.standard_error
        assert own.effects[0].candidates[0].covariates == other.effects[0].candidates[0].covariates
        assert abs(own.value - other.value) < error
        words = ("--treatment", "drug", "--outcome", outcome, "--data", folder, "--doubly-robust")
        code, said, err = run(capsys, "effect", found.folder, *words)
        assert code == 0, err
        for part in (f"{other.value:+.4g}, 95 % interval", "one of two models is right", "in under 1 % of the rows"):
            assert part in said
        code, said, _ = run(capsys, "effect", found.folder, *words, "--json")
        (adjusted,) = json.loads(said)["effects"][0]["adjustment_sets"]
        assert adjusted["overlap"] == {"silos": 3, "clipped": "under 1 %"}

    def test_doubly_robust_effects_of_all_causes_that_have_labels(self, capsys, of_both):
        folder, found = of_both
        alone = found.effect("drug", "t", data=folder, doubly_robust=True)
        code, said, err = run(
            capsys, "effect", found.folder, "--all", "--outcome", "t", "--data", folder, "--doubly-robust"
        )
        assert code == 0, err
        assert f"total effect of drug: no → yes on mean of t: {alone.value:+.4g}, 95 % interval" in said
        assert "total effect of z: 0 → 1 on mean of t: not identified" in said
        assert "it cannot be estimated: a doubly robust effect compares two labels" in said

    def test_doubly_robust_effects_by_level_of_a_covariate(self, capsys, of_labels, labels):
        words = ("--treatment", "x", "--outcome", "y", "--data", labels, "--doubly-robust")
        one = of_labels.effect("x", "y", data=labels, doubly_robust=True, by="w").effects[0]
        groups = dict(one.candidates[0].estimate.groups)
        assert groups["w = yes"].value == pytest.approx(0.3, abs=3 * groups["w = yes"].standard_error)
        assert groups["w = no"].value == pytest.approx(0.15, abs=3 * groups["w = no"].standard_error)
        code, said, err = run(capsys, "effect", of_labels.folder, *words, "--by", "w")
        assert code == 0, err
        assert f"  w = yes: {groups['w = yes'].value:+.4g}, 95 % interval" in said
        code, said, err = run(capsys, "effect", of_labels.folder, *words, "--by", "y")
        assert (code, said, err.count("\n")) == (2, "", 1)
        assert "--by y: the effect of x is adjusted for" in err

    def test_doubly_robust_effects_of_labels_alone(self, of_labels, labels):
        """The tables give the g-formula, which assumes no form; the model of the treatment is right."""
        own, other = of_labels.effect("x", "y"), of_labels.effect("x", "y", data=labels, doubly_robust=True)
        assert set(other.effects[0].candidates[0].covariates) == {"z", "w"}
        assert abs(own.value - other.value) < 0.3 * other.effects[0].candidates[0].estimate.standard_error

    def test_what_is_refused(self, capsys, of_both, of_labels):
        folder, found = of_both
        for words, said in {
            ("--treatment", "z", "--outcome", "stage"): "stage has 3 labels: omit --data",
            ("--treatment", "z", "--outcome", "t", "--by-silo"): "--by-silo is for runs of numbers",
            ("--treatment", "z", "--treatment", "drug", "--outcome", "t"): "joint interventions are for numbers",
            ("--treatment", "z", "--outcome", "t", "--doubly-robust"): "two labels of the treatment, and z has numbers",
            ("--treatment", "drug", "--outcome", "t", "--by", "stage"): "--by is for doubly robust effects",
            ("--treatment", "drug", "--outcome", "t", "--doubly-robust", "--by", "z"): "--by needs a column of labels",
            ("--treatment", "drug", "--outcome", "t", "--doubly-robust", "--by", "zz"): "--by 'zz' is no variable",
            ("--treatment", "drug", "--outcome", "stage", "--doubly-robust"): "stage has 3 labels: omit --data",
            (
                "--treatment",
                "drug",
                "--outcome",
                "t",
                "--doubly-robust",
                "--placebo",
                "3",
            ): "has no --bootstrap, --by-silo",
            ("--treatment", "drug", "--treatment", "z", "--outcome", "t", "--doubly-robust"): "one treatment at a time",
        }.items():
            code, out, err = run(capsys, "effect", found.folder, *words, "--data", folder)
            assert (code, out, err.count("\n")) == (2, "", 1)
            assert said in err
        with pytest.raises(BadInput, match="for labels alone, the run's probability tables give the effect"):
            of_labels.effect("x", "y", data=folder)


class TestVariability:
    """--bootstrap and --by-silo."""

    def test_both_exchanges_draw_the_same_resamples(self, study, finished):
        """An equal-variance DAG has the regressions of its own resample as weights."""
        graphs, moments = _learned_anew(read_run_data(finished.result, study), 5)
        place = {name: number for number, name in enumerate(finished.result.structure.variables)}
        y, z, m = (place[name] for name in "yzm")
        assert len({one.weights[z, y] for one in graphs}) == 5
        for one, own in zip(graphs, moments, strict=True):
            assert one.weights[z, y] == pytest.approx(adjusted_effect(own, z, y, [m]).value, rel=1e-6)

    def test_a_cause_in_every_resample(self, capsys, study, finished):
        words = ("--treatment", "x", "--outcome", "y", "--data", study, "--bootstrap", 40, "--compare", "0,2")
        code, said, err = run(capsys, "effect", finished.folder, *words)
        assert code == 0, err
        assert "the graph learned again from each of 40 resamples" in said
        assert "no cause in 0 % of the graphs" in said
        assert "same rows, except those over resamples." in said
        found = finished.effect("x", "y", compare=(0, 2), data=study, bootstrap=40).effects[0]
        assert found.resampled.interval[0] < 2 * 0.9 * 1.2 < found.resampled.interval[1]
        width = np.diff(found.interval) / np.diff(found.resampled.interval)
        assert 0.5 < float(width[0]) < 2

    def test_the_silos_effects_are_of_the_change_that_was_asked(self, study, finished):
        one, two = (
            finished.effect("x", "y", compare=(0, k), data=study, by_silo=True).effects[0].silos for k in (1, 2)
        )
        for silo, own in one.estimates.items():
            assert two.estimates[silo].value == pytest.approx(2 * own.value)
            assert two.without_one[silo].value == pytest.approx(2 * one.without_one[silo].value)

    def test_no_cause_in_any(self, study, finished):
        found = finished.effect("y", "z", data=study, bootstrap=10).effects[0]
        assert found.status == "zero"
        assert (found.resampled.no_cause, found.resampled.interval) == (1, (0, 0))

    def test_silos_have_effects_of_their_own(self, study, finished):
        found = finished.effect("x", "y", data=study, by_silo=True).effects[0].silos
        for silo, table in linear_tables().items():
            assert found.estimates[silo].value == pytest.approx(pooled_slope({silo: table}, "y", ["x", "z"]), abs=1e-8)
            others = {name: one for name, one in linear_tables().items() if name != silo}
            assert found.without_one[silo].value == pytest.approx(pooled_slope(others, "y", ["x", "z"]), abs=1e-8)
        assert found.p_value > 0.01

    def test_a_permuted_treatment_has_no_effect(self, capsys, study, finished, of_both):
        """This holds for numbers and labels, from the same sums, and is reproducible."""
        words = ("--treatment", "x", "--outcome", "y", "--data", study, "--placebo", 20)
        code, said, err = run(capsys, "effect", finished.folder, *words)
        assert code == 0, err
        assert "placebo, the treatment permuted within each silo 20 times: between -" in said
        folder, of_labels = of_both
        for one in (
            finished.effect("x", "y", data=study, placebo=20).effects[0],
            of_labels.effect("drug", "ill", data=folder, placebo=20).effects[0],
        ):
            estimates = np.array(one.placebo.estimates)
            error = one.candidates[0].estimate.standard_error
            assert len(set(estimates)) == 20
            assert abs(estimates.mean()) < error
            assert np.abs(estimates).max() < abs(one.value) / 2
            assert one.placebo.excluding_zero <= 4
        assert of_labels.effect("drug", "ill", data=folder, placebo=20).effects[0] == one
        assert finished.effect("y", "x", data=study, placebo=2).effects[0].placebo is None

    def test_a_forest_plot(self, capsys, study, finished, tmp_path):
        words = ("--all", "--outcome", "y", "--data", study, "--by-silo", "--picture", tmp_path / "forest.svg")
        code, _, err = run(capsys, "effect", finished.folder, *words)
        assert code == 0, err
        drawn = (tmp_path / "forest.svg").read_text()
        assert drawn.startswith("<?xml")
        report = finished.effect("x", "y", data=study, by_silo=True)
        axes = draw_forest(report.effects).axes[0]
        labels = [one.get_text() for one in axes.get_yticklabels()]
        assert labels == ["silo c", "silo b", "silo a", "x: 0 → 1"]
        ends = {tuple(line.get_xdata()) for line in axes.lines if len(line.get_xdata()) == 2}
        assert report.interval in ends
        assert report.effects[0].silos.estimates["c"].interval in ends


WRONG = {
    "placebos without rows": (
        ["--outcome", "y", "--treatment", "x", "--placebo", "9"],
        "--placebo needs the run's rows",
    ),
    "fewer than none": (["--outcome", "y", "--treatment", "x", "--placebo", "-1"], "--placebo is -1: it must be 1 or"),
    "resamples without rows": (["--outcome", "y", "--treatment", "x", "--bootstrap", "9"], "--bootstrap needs the run"),
    "models without rows": (
        ["--outcome", "y", "--treatment", "x", "--doubly-robust"],
        "--doubly-robust needs the run's",
    ),
    "silos without rows": (["--outcome", "y", "--treatment", "x", "--by-silo"], "--by-silo needs the run's rows"),
    "a picture of another kind": (["--outcome", "y", "--treatment", "x", "--picture", "a.txt"], "a picture ends in"),
    "unknown treatment": (["--treatment", "xx", "--outcome", "y"], "treatment 'xx' is no variable of the run: did you"),
    "unknown outcome": (["--treatment", "x", "--outcome", "why"], "outcome 'why' is no variable"),
    "the same": (["--treatment", "y", "--outcome", "y"], "treatment and outcome are the same variable: y"),
    "none": (["--outcome", "y"], "give --treatment X, or --all"),
    "both": (["--outcome", "y", "--all", "--treatment", "x"], "omit --treatment"),
    "twice": (["--outcome", "y", "--treatment", "x", "--treatment", "x"], "x is named twice"),
    "one value": (["--outcome", "y", "--treatment", "x", "--compare", "1"], "--compare is '1': give two different"),
    "no number": (["--outcome", "y", "--treatment", "x", "--compare", "no,yes"], "x has numbers, and the value"),
    "direct": (["--outcome", "y", "--treatment", "x", "--treatment", "m", "--direct"], "omit --direct"),
    "no data": (["--outcome", "y", "--treatment", "x", "--data", "nowhere"], "nowhere"),
}


@pytest.mark.parametrize(("words", "said"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_one_line(capsys, finished, words, said):
    code, out, err = run(capsys, "effect", finished.folder, *words)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_other_rows_are_refused(capsys, finished, tmp_path):
    other = write(tmp_path / "study", linear_tables(rows=ROWS | {"b": 399}))
    with pytest.raises(BadInput, match="silo b has 399 rows, and the run had 400"):
        finished.effect("x", "y", data=other)


def test_a_label_that_does_not_exist(of_labels):
    with pytest.raises(BadInput, match="x has no label 'yess': did you mean yes"):
        of_labels.effect("x", "y", compare=("no", "yess"))
    with pytest.raises(BadInput, match="one treatment at a time"):
        of_labels.effect(["x", "z"], "y")


def test_runs_without_a_model_or_with_an_epsilon_have_no_effects(capsys, study, tmp_path):
    bare = tmp_path / "bare"
    fedbnsl.learn(study, "secure-linear", out=bare, engine="inline", parameters=False)
    words = ("--treatment", "x", "--outcome", "y")
    code, _, err = run(capsys, "effect", bare, *words)
    assert (code, err.count("\n")) == (2, 1)
    assert "the run has no model: parameters were not requested" in err
    assert run(capsys, "effect", bare, *words, "--data", study)[0] == 0
    private = fedbnsl.learn(study, epsilon=50.0, out=tmp_path / "private", engine="inline")
    with pytest.raises(BadInput, match="the run has an ε"):
        private.effect("x", "y")
    for further in ({}, {"doubly_robust": True}):
        with pytest.raises(BadInput, match="the run has an ε"):
            private.effect("x", "y", data=study, **further)


@pytest.fixture(scope="module")
def with_hidden_cause(tmp_path_factory):
    """a → x ← b, x → y, and v ↔ y by a cause that no silo has; a run of fed-fci."""
    rng, tables = np.random.default_rng(4), {}
    for silo, n in {"n": 900, "s": 2100}.items():
        a, b, hidden = rng.normal(size=(3, n))
        x = a - b + rng.normal(size=n)
        y = 0.7 * x + hidden + 0.5 * rng.normal(size=n)
        v = hidden + 0.5 * rng.normal(size=n)
        tables[silo] = pd.DataFrame({"y": y, "v": v, "a": a, "b": b, "x": x}) + 5 * rng.normal(size=5)
    folder = write(tmp_path_factory.mktemp("hidden") / "study", tables)
    out = tmp_path_factory.mktemp("runs") / "pag"
    return folder, fedbnsl.learn(folder, "fed-fci", out=out, engine="inline"), tables, out


def test_effects_in_a_pag_are_those_of_the_rows_or_the_edge_that_hides_them(with_hidden_cause, capsys):
    folder, run, tables, out = with_hidden_cause
    found = run.effect("x", "y", data=folder)
    centred = pd.concat([table - table.mean() for table in tables.values()])
    slope = centred["x"] @ centred["y"] / (centred["x"] @ centred["x"])
    assert found.effects[0].value == pytest.approx(slope, rel=1e-8)
    assert found.effects[0].interval[0] < 0.7 < found.effects[0].interval[1]
    assert any("Unmeasured common causes are allowed for" in line for line in found.rests_on)
    assert not any("No unmeasured confounding" in line for line in found.rests_on)
    assert "generalised adjustment criterion" in str(found)
    without = run.effect("x", "y").effects[0]
    assert without.status == "not identified"
    assert "no model for this effect, given no covariate: give the run's rows with --data FOLDER" in without.reason
    varied = run.effect("x", "y", data=folder, bootstrap=8, by_silo=True).effects[0]
    assert varied.resampled.interval[0] < 0.7 < varied.resampled.interval[1]
    assert set(varied.silos.estimates) == {"n", "s"}
    hidden = run.effect("a", "y", data=folder).effects[0]
    assert (hidden.status, hidden.value) == ("not identified", None)
    assert "the edge a o-> x, with which paths from a to y begin" in hidden.reason
    assert run.effect("v", "x").effects[0].status == "zero"
    with pytest.raises(SystemExit, match="0"):
        main(["effect", str(out), "--all", "--outcome", "y", "--data", str(folder)])
    assert "not identified" in capsys.readouterr().out


def test_ranges_stand_in_the_order_of_their_largest_end():
    """A range that begins at zero may include the strongest effect; effects that are not identified come last."""

    def one(name, *values):
        found = tuple(Candidate(AdjustmentSet(True), (), Estimate(value)) for value in values)
        return Effect(name, "y", "total", (0.0, 1.0), "mean", "", found)

    report = EffectReport((one("a", 1.0), one("none"), one("b", 0.0, -3.0), one("c", -2.0), one("d", 0.5, 1.5)))
    assert [effect.treatment for effect in strongest_first(report)] == ["b", "c", "d", "a", "none"]


def test_each_effect_has_the_placebos_of_its_own_treatment_and_values(monkeypatch):
    """Also of several effects, of which some are not identified and some permutations cannot be estimated."""
    schema = Schema(("x", "z", "y"), {"a": 40, "b": 90}, "mixed", {"z": ("low", "mid", "top")})

    def one(name, values, *found):
        sets = tuple(Candidate(AdjustmentSet(True), tuple(given), Estimate(1.0)) for given in found)
        return Effect(name, "y", "total", values, "mean", "", sets)

    def answered(data, outcome, questions):
        assert outcome == "y"
        return [
            "too few rows"
            if q.permutation == 2 and q.treatment
            else Estimate(100 * q.treatment + 10 * q.values[1] + q.permutation)
            for q in questions
        ]

    monkeypatch.setattr(effect_regressions, "estimates", answered)
    effects = [
        one("x", (0.0, 1.0), ("z",)),
        one("x", (0.0, 1.0), ("z",), ()),
        one("z", ("low", "mid"), ()),
        one("z", ("low", "top"), ()),
    ]
    found = effect_regressions.with_placebos(SimpleNamespace(rows=SimpleNamespace(schema=schema)), effects, 3)
    assert [effect.placebo and effect.placebo.estimates for effect in found] == [
        (11.0, 12.0, 13.0),
        None,
        (111.0, 113.0),
        (121.0, 123.0),
    ]
    assert [replace(effect, placebo=None) for effect in found] == effects


@pytest.fixture(scope="module")
def transformed():
    """A treatment acts on the logarithm of a size, and the logarithm of a dose on a response."""
    rng, tables = np.random.default_rng(5), {}
    for silo in "ab":
        ill = rng.random(3000) < 0.4
        size = np.exp(1 + 0.5 * ill + 0.4 * rng.normal(size=3000))
        dose = np.exp(rng.normal(size=3000))
        response = 2 * np.log(dose) + rng.normal(size=3000)
        tables[silo] = pd.DataFrame(
            {"ill": np.where(ill, "yes", "no"), "size": size, "dose": dose, "response": response}
        )
    known = {"required": "ill->size,dose->response", "transform": "size=log,dose=log", "bootstrap": 0}
    about = {"unit": {"size": "mm"}}
    return fedbnsl.learn(tables, "secure-boss", about=about, **known), pd.concat(tables.values())


def test_an_effect_on_a_transformed_outcome_is_computed_back(transformed):
    learned, rows = transformed
    (effect,) = learned.effect("ill", "size", direct=True).effects
    means = rows.groupby("ill")["size"].mean()
    assert effect.original.bounds[0] == pytest.approx(means["yes"] - means["no"], rel=0.05)
    assert effect.original.interval[0] < means["yes"] - means["no"] < effect.original.interval[1]
    assert effect.value == pytest.approx(0.5, abs=0.03), "the estimate itself is on the scale of the model"
    (line, *_) = str(learned.effect("ill", "size", direct=True)).splitlines()
    assert f"in the data {effect.original.bounds[0]:+.4g} mm" in line
    assert effect.as_json()["in_units"]["unit"] == "mm"
    (statement,) = (one for one in statements(learned.result).sentences if one.edge.target == "size")
    assert f"higher by {effect.original.bounds[0]:.3g} mm" in statement.text


def test_values_of_a_transformed_treatment_are_in_the_units_of_the_data(transformed):
    learned, _ = transformed
    (effect,) = learned.effect("dose", "response", compare=(1, np.e)).effects
    assert effect.value == pytest.approx(2, abs=0.1)
    assert effect.original.values == pytest.approx((1, np.e))
    assert str(learned.effect("dose", "response", compare=(2, 4))).startswith("dose: 2 → 4 mean of response +1.3")
    (usual,) = learned.effect("dose", "response").effects
    assert usual.original.values[1] / usual.original.values[0] == pytest.approx(np.e)
    with pytest.raises(BadInput, match="dose has numbers, and the value to compare is 'high'"):
        learned.effect("dose", "response", compare=(1, "high"))


def test_an_effect_without_transforms_has_no_second_number(transformed):
    learned, _ = transformed
    assert learned.effect("ill", "response").effects[0].original is None
