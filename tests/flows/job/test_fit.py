"""The fit that a run reports equals that of the pooled rows, on both engines, with and without masks."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

from fedbnsl import learn, load, prepare
from fedbnsl.algorithms.constraint import search
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.diagnosis import implied_tables
from fedbnsl.algorithms.diagnosis.implied_moments import fit_of_moments
from fedbnsl.algorithms.graphs.cpdag import dag_extension
from fedbnsl.data.folder.folder import silo_files
from fedbnsl.flows.engines import inline
from fedbnsl.tasks.silo.policy import Policy
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tracking.publication import rounded


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    home = tmp_path_factory.mktemp("studies")
    prepare("heterogeneous", home / "numbers", variables=6, silos=3, rows=700, seed=4)
    prepare("discrete", home / "labels", variables=6, silos=3, rows=1500, seed=2)
    for k, path in enumerate(sorted(silo_files(home / "numbers").values())):
        frame = pd.read_csv(path)
        frame.iloc[: 120 + 50 * k].add(10.0 * k).to_csv(path, index=False)
    (home / "numbers" / "about.json").write_text('{"kind": "continuous"}')
    return home


def expected_of(folder, result):
    """The fit computed from the rows of all silos in one place."""
    frames = [pd.read_csv(path)[list(result.structure.variables)] for path in silo_files(folder).values()]
    dag, d = dag_extension(result.structure).dag, len(result.structure.variables)
    if result.schema.kind == "continuous":
        rows = pd.concat([frame - frame.mean() for frame in frames]).to_numpy()
        S, every = rows.T @ rows / len(rows), np.ones(d, bool)
        return rounded(fit_of_moments(S, len(rows), len(frames), dag, result.structure.variables, np.arange(d), every))
    rows, levels = pd.concat(frames), result.schema.levels
    codes = np.column_stack([pd.Categorical(rows[v].astype(str), levels[v]).codes for v in result.structure.variables])
    server = implied_tables.start(Schema(result.structure.variables, {"all": len(rows)}, "discrete", levels), dag)
    counts = []
    for members in server.sets:
        chosen = [v for v in members if v >= 0]
        shape = [len(levels[result.structure.variables[v]]) for v in chosen]
        table = np.zeros(shape, int)
        np.add.at(table, tuple(codes[:, chosen].T), 1)
        counts.append(table.ravel())
    return rounded(implied_tables.fit_of_tables(replace(server, counts=np.concatenate(counts)), blank=True))


@pytest.mark.parametrize("engine", ["inline", pytest.param("prefect", marks=pytest.mark.slow(60))])
@pytest.mark.parametrize("kind", ["numbers", "labels"])
def test_it_is_that_of_the_pooled_rows(kind, engine, request, studies, tmp_path):
    if engine == "prefect":
        request.getfixturevalue("server")
    algorithm = {"numbers": "fed-sparse", "labels": "fed-pc"}[kind]
    found = learn(studies / kind, algorithm, engine=engine, secure=True, out=tmp_path / "out", bootstrap=0).result
    expected = expected_of(studies / kind, found)
    assert found.fit.implied == expected.implied > 0
    assert found.fit.tested == expected.tested > 0
    assert [one.text for one in found.fit.worst] == [one.text for one in expected.worst]
    got, wanted = (
        {name: value for name, value in fit.metrics.items() if name not in ("fit", "fit_bytes", "fit_worst")}
        for fit in (found.fit, expected)
    )
    assert got == pytest.approx(wanted, rel=1e-8 if kind == "labels" else 1e-6, abs=1e-8)
    assert {name: found.metrics[name] for name in got} == got
    assert found.fit.bytes_sent == 0  # it is a function of the sums of the diagnosis
    assert load(tmp_path / "out").result.fit == found.fit


def test_silos_in_the_clear_give_the_pooled_figures_to_rounding(studies):
    found = learn(studies / "numbers", "fed-sparse", bootstrap=0).result
    expected = expected_of(studies / "numbers", found).metrics
    names = [name for name in expected if name not in ("fit", "fit_bytes", "fit_worst")]
    assert {name: found.metrics[name] for name in names} == pytest.approx(
        {name: expected[name] for name in names}, rel=1e-8
    )


REASONS = {
    "with an ε": ("numbers", {"epsilon": 100.0}, "the noise for ε affects"),
    "without a diagnosis": ("numbers", {"diagnose": False}, "not requested"),
    "of a PAG": ("labels", {"algorithm": "fed-fci"}, "a PAG leaves"),
    "of a mean of silos' own weights": ("numbers", {"algorithm": "secure-boss", "weights": "own"}, "weights differ"),
}


@pytest.mark.parametrize("which", REASONS)
def test_where_it_is_not_known_one_line_says_why(which, studies):
    kind, options, reason = REASONS[which]
    found = learn(studies / kind, bootstrap=0, **options).result
    assert reason in found.fit.why
    assert len(found.fit.lines) == 1
    assert found.metrics["fit"] == found.fit.lines[0]
    assert not {name for name in found.metrics if name.startswith("fit_")} - {"fit_bytes"}


def test_an_owner_may_refuse_the_count_tables(studies, monkeypatch):
    limited = partial(SiloService, policy=Policy(steps=("family-tables", "diagnosis-tables")))
    monkeypatch.setattr(inline, "SiloService", limited)
    tables = {silo: pd.read_csv(path, dtype=str) for silo, path in silo_files(studies / "labels").items()}
    found = learn(tables, "fed-pc", secure=True).result
    assert found.parameters.network is not None
    assert "step fit-tables is not allowed" in found.fit.why


def largest_of_pairs(variables, results):
    """The largest p-value of the tests of each pair in `results`, each the tests and their p-values."""
    largest = {}
    for tests, p in results:
        for (i, j, *_), one in zip(tests.tolist(), p.tolist(), strict=True):
            pair = (*sorted((variables[i], variables[j])), 0)
            largest[pair] = max(largest.get(pair, 0.0), one)
    return largest


def test_edges_of_a_search_by_tests_have_the_largest_p_value_of_their_pair(studies, monkeypatch, tmp_path):
    made, apply = [], search.apply_results

    def record(plan, state, results):
        if state.stage != "colliders":
            made.append((state.tests, results.p))
        return apply(plan, state, results)

    monkeypatch.setattr(search, "apply_results", record)
    found = learn(studies / "numbers", "fed-pc", bootstrap=0, out=tmp_path / "out")
    figures, pairs = found.result.edge_figures, largest_of_pairs(found.result.structure.variables, made)
    assert len(figures) == len(found.edges) > 3
    for key, one in figures.items():
        assert one.largest_p_value == float(f"{pairs[key]:.3g}") <= 0.05
    assert load(tmp_path / "out").result.edge_figures == figures
    assert list(found.edges.columns) == [
        *("source", "target", "weight", "type"),
        *("log_likelihood", "bic", "p_value", "largest_p_value", "basis"),
    ]


@pytest.mark.parametrize(
    ("study", "algorithm", "settings", "columns"),
    [
        ("numbers", "secure-linear", {}, {"log_likelihood", "bic", "p_value"}),
        ("labels", "secure-ges", {}, {"log_likelihood", "bic", "p_value", "score"}),
        ("labels", "secure-ges", {"score": "bic"}, {"log_likelihood", "bic", "p_value"}),
        ("labels", "fed-fci", {}, {"largest_p_value"}),
        ("labels", "pc-cit-voting", {}, {"log_likelihood", "bic", "p_value"}),
        ("labels", "fed-pc", {"epsilon": 50.0, "delta": 1e-5, "insecure_seed": 1}, {"largest_p_value"}),
        ("numbers", "secure-sum", {"epsilon": 50.0, "delta": 1e-5, "insecure_seed": 1}, set()),
    ],
)
def test_each_learner_reports_the_figures_that_its_sums_determine(study, algorithm, settings, columns, studies):
    found = learn(studies / study, algorithm, bootstrap=0, **settings)
    assert len(found.edges)
    assert set(found.edges.columns) - {"source", "target", "weight", "type", "basis"} == columns


@pytest.mark.parametrize(("kept", "digits"), [("blank", False), ("keep", True)])
def test_labels_have_the_magnitude_of_the_p_values_of_exact_counts_alone(kept, digits, studies):
    found = learn(studies / "labels", "fed-pc", bootstrap=0, small_cells=kept)
    p = found.edges["largest_p_value"]
    powers = np.log10(p[p > 0])
    assert len(powers)
    assert np.allclose(powers, powers.round()) == (not digits)
