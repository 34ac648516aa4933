"""`learn` without options: what `auto` runs, on both engines, after a crash, and what it prints."""

import json

import numpy as np
import pytest

from fedbnsl import learn
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.federated import FederatedData
from fedbnsl.data.folder.folder import read_folder, write_folder
from fedbnsl.data.generators.discrete import discrete
from fedbnsl.data.generators.dynamic import dynamic
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.flows.engines.inline import job_inline, run_inline
from fedbnsl.flows.job.check import algorithm_spec
from fedbnsl.flows.options.learn import LearnOptions, LearnSettings
from tests.flows.commands import assert_same_files, run, stop_and_resume

WRITTEN = ("structure.csv", "rounds.csv")
DATA = {
    "continuous": lambda: homogeneous(5, 3, 120, 1),
    "discrete": lambda: discrete(variables=5, silos=2, rows=300, seed=3),
    "time-series": lambda: dynamic(4, 3, 150, 2),
}


def metrics(folder):
    found = json.loads((folder / "metrics.json").read_text())
    return {key: value for key, value in found.items() if key != "seconds"}


@pytest.fixture(scope="module")
def two_exchanges(tmp_path_factory):
    """A folder whose class has undirected edges, and errors that are not Gaussian: it takes both exchanges."""
    rng = np.random.default_rng(4)
    scale = np.array([1e-6, 1e4, 1.0, 30.0, 0.2])
    W = np.diag([1.0, -1.0, 0.8, 1.2], 1)
    tables = {f"s{k}": rng.exponential(size=(400, 5)) @ np.linalg.inv(np.eye(5) - W) * scale for k in range(3)}
    data = homogeneous(5, 3, 400, 1)
    folder = tmp_path_factory.mktemp("data") / "bent"
    write_folder(
        folder, FederatedData(data.schema, dict(zip(data.schema.silos, tables.values(), strict=True)), None, {})
    )
    return folder


@pytest.mark.parametrize(
    ("kind", "epsilon", "name", "params"),
    [
        ("continuous", None, "secure-linear", {}),
        ("continuous", 2.0, "secure-sum", {"epsilon": 2.0}),
        ("discrete", None, "secure-boss", {}),
        ("discrete", 2.0, "fed-pc", {"epsilon": 2.0}),
        ("time-series", None, "secure-linear", {}),
        ("time-series", 2.0, "secure-sum", {"lags": "auto", "epsilon": 2.0}),
    ],
)
def test_auto_becomes_what_suits_the_kind_and_the_budget(kind, epsilon, name, params):
    schema = DATA[kind]().schema
    spec = algorithm_spec(LearnOptions(epsilon=epsilon), schema)
    assert spec.name == name
    assert {key: getattr(spec.settings, key) for key in params} == params


def test_the_seed_and_the_parameters_go_to_what_auto_becomes():
    schema = DATA["continuous"]().schema
    assert algorithm_spec(LearnOptions(seed=5), schema).settings.seed == 5
    assert algorithm_spec(LearnOptions(seed=5, params={"seed": "9"}), schema).settings.seed == 9
    assert algorithm_spec(LearnOptions(params={"error_variances": "free"}), schema).settings.error_variances == "free"
    assert algorithm_spec(LearnOptions(params={"lags": "2"}), DATA["time-series"]().schema).settings.lags == 2
    with pytest.raises(BadInput, match="unknown parameter 'rho1' of secure-linear"):
        algorithm_spec(LearnOptions(params={"rho1": "3"}), schema)


@pytest.mark.parametrize("kind", DATA)
def test_learning_without_an_option_says_what_was_chosen(kind):
    data = DATA[kind]()
    found = learn(data)
    assert found.result.structure.adjacency.any()
    assert found.result.algorithm == algorithm_spec(LearnOptions(), data.schema).name
    assert found.result.asked == "auto"


@pytest.mark.slow
def test_both_engines_learn_the_same(capsys, server, two_exchanges, tmp_path):
    for engine in ("inline", "prefect"):
        code, _, err = run(capsys, "learn", two_exchanges, "--engine", engine, "--out", tmp_path / engine)
        assert code == 0, err
    assert_same_files(tmp_path / "inline", tmp_path / "prefect", WRITTEN)
    one, other = metrics(tmp_path / "inline"), metrics(tmp_path / "prefect")
    assert one["rounds"] == 2
    assert one == other


@pytest.mark.slow
def test_a_run_resumed_between_its_exchanges_gives_the_same(server, two_exchanges, tmp_path, monkeypatch, capsys):
    assert run(capsys, "learn", two_exchanges, "--engine", "inline", "--out", tmp_path / "whole")[0] == 0
    stop_and_resume(
        capsys,
        monkeypatch,
        "fedbnsl.algorithms.moments.secure_linear.direct_edges",
        ["learn", two_exchanges],
        tmp_path / "out",
    )
    assert_same_files(tmp_path / "out", tmp_path / "whole", WRITTEN)
    assert metrics(tmp_path / "out") == metrics(tmp_path / "whole")


def test_units_do_not_change_the_class(two_exchanges):
    data = read_folder(two_exchanges)
    scale = 10.0 ** np.array([6, -4, 0, 3, -2])
    other = FederatedData(data.schema, {silo: X * scale for silo, X in data.tables.items()}, None, {})
    one, two = (learn(given, error_variances="free", bootstrap=0) for given in (data, other))
    np.testing.assert_array_equal(one.result.structure.adjacency, two.result.structure.adjacency)
    assert one.result.structure.kind == two.result.structure.kind


def diagnosed(data, **options):
    settings = LearnSettings(data="tables", bootstrap=0, **options)
    return run_inline(job_inline(settings, "run", data), data).diagnosed


def test_a_shifted_silo_is_named_and_a_private_run_asks_nobody():
    data = homogeneous(5, 4, 300, 2)
    data.tables["silo-2"][:, 1] += 10
    (found,) = diagnosed(data).findings
    assert (found.name, found.silos) == ("shifted silo", ("silo-2",))
    assert found.message.startswith("silo-2 is shifted: its mean of x2 is ")
    private = diagnosed(data, epsilon=5.0)
    assert (private.findings, private.bytes_sent) == ((), 0)
    assert diagnosed(data, diagnose=False).findings == ()


def test_a_learner_that_rests_on_variances_is_warned_of_standardised_columns_and_auto_is_not():
    data = homogeneous(5, 3, 400, 3)
    all_rows = np.vstack(list(data.tables.values()))
    scaled = {silo: X / all_rows.std(axis=0) for silo, X in data.tables.items()}
    data = FederatedData(data.schema, scaled, data.truth, {})
    assert "standardised" in [one.name for one in diagnosed(data, algorithm="fed-sparse").findings]
    assert "standardised" not in [one.name for one in diagnosed(data).findings]
