"""Every kind of table of docs/tables.md: masked or not, with an ε, and on both engines."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from pandas.api.types import is_numeric_dtype
from scipy.special import expit

from fedbnsl import learn
from fedbnsl.algorithms import registry
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.tasks.silo import runs
from tests.flows.commands import run

PARTS = {"one": slice(0, 500), "other": slice(500, 1300), "third": slice(1300, 1600)}
CHAIN = {"b": ["a"], "c": ["b"], "d": ["c"], "e": ["d"]}
STEEP = {"x": ["region"], "y": ["x"], "sick": ["y"]}


def dealt(table, **lacking):
    """The rows of `table` in three silos, each without the columns that it lacks."""
    return {silo: table.iloc[rows].drop(columns=lacking.get(silo, [])) for silo, rows in PARTS.items()}


def chain(rng):
    """Rows of a → b → c → d → e with equal error variances."""
    x = rng.normal(size=(1600, 5))
    for j in range(1, 5):
        x[:, j] += 1.1 * x[:, j - 1]
    return pd.DataFrame(x, columns=[*"abcde"])


def steep(rng):
    """Rows of region → x → y → sick, with P(sick) = logistic(2.5 y)."""
    region = rng.integers(4, size=1600)
    x = 2 * np.array([-1.0, 1.0, -0.4, 0.6])[region] + rng.normal(size=1600)
    y = 0.9 * x + rng.normal(size=1600)
    sick = np.where(rng.random(1600) < expit(2.5 * (y - y.mean())), "yes", "no")
    return pd.DataFrame({"sick": sick, "y": y, "region": np.array([*"nesw"])[region], "x": x})


def empty(table, rng, share=0.05):
    return table.mask(rng.random(table.shape) < share)


def never_together(table):
    """`table` in three silos; no row has both a and e."""
    holes = {"one": ["e"], "other": ["a"], "third": ["a", "e"]}
    return {silo: part.assign(**dict.fromkeys(holes[silo], np.nan)) for silo, part in dealt(table).items()}


def labelled(table):
    return table.apply(lambda column: pd.Series(np.array(["low", "mid", "top"])[np.digitize(column, (-0.7, 0.7))]))


def dated(table):
    days = pd.to_timedelta(np.round(400 + 30 * table["e"]), unit="D")
    return table.assign(e=(pd.Timestamp("2020-01-01") + days).dt.strftime("%Y-%m-%d"))


def counted(table, rng, slope=0.35):
    return table.assign(visits=rng.poisson(np.exp(1 + slope * table["e"])))


COUNTED, DERIVED = CHAIN | {"visits": ["e"]}, CHAIN | {"total": ["a", "c"]}
KINDS = {
    "gaps": (lambda rng: dealt(empty(chain(rng), rng)), CHAIN, ()),
    "counts": (lambda rng: dealt(counted(chain(rng), rng)), COUNTED, ()),
    "log": (lambda rng: dealt(np.exp(chain(rng) / 2)), CHAIN, ("--transform", "log")),
    "normal-scores": (lambda rng: dealt(chain(rng) ** 3), CHAIN, ("--transform", "normal-scores")),
    "dates": (lambda rng: dealt(dated(chain(rng))), CHAIN, ("--dates", "days")),
    "derived": (lambda rng: dealt(chain(rng).assign(total=lambda x: x["a"] + x["c"])), DERIVED, ()),
    "union": (lambda rng: dealt(chain(rng), one=["e"], other=["a"]), CHAIN, ("--columns", "union")),
    "common": (lambda rng: dealt(chain(rng), one=["e"], other=["a"]), CHAIN, ("--columns", "common")),
    "never together": (lambda rng: never_together(chain(rng)), CHAIN, ()),
    "outliers": (
        lambda rng: dealt(chain(rng) + 60.0 * (rng.random((1600, 5)) < 0.01)),
        CHAIN,
        ("--outliers", "set-aside"),
    ),
    "labels with gaps": (lambda rng: dealt(empty(labelled(chain(rng)), rng)), CHAIN, ()),
    "steep label": (lambda rng: dealt(steep(rng)), STEEP, ()),
    "steep label with gaps": (lambda rng: dealt(empty(steep(rng), rng)), STEEP, ()),
    "mixed union": (lambda rng: dealt(steep(rng), other=["x"]), STEEP, ("--columns", "union")),
}
REFUSED = {
    "normal-scores": "--transform: normal scores of 'a' cannot be used with an ε",
    "dates": "--dates days cannot be used with an ε",
    "union": "--columns union: not every silo has 'a', and with an ε an empty cell counts as 0",
    "mixed union": "--columns union: not every silo has 'x', and with an ε an empty cell counts as 0",
    "outliers": "--outliers set-aside: in a run with an ε, values are clipped instead",
}
"""what an error says of tables that a run with an ε refuses"""
COSTS = ("seconds", "bytes", "memory", "engine")
"""parts of the names of metrics that are not scores of the structure"""


@pytest.fixture(scope="module", params=KINDS)
def kind(request, tmp_path_factory):
    """A kind, a folder of it with its true graph, and the options to learn from it with."""
    make, truth, words = KINDS[request.param]
    folder = tmp_path_factory.mktemp("kinds") / "data"
    folder.mkdir()
    parts = make(np.random.default_rng(3))
    for silo, part in parts.items():
        part.to_csv(folder / f"{silo}.csv", index=False)
    edges = [f"{cause},{effect}\n" for effect, causes in truth.items() for cause in causes]
    (folder / "truth.csv").write_text("source,target\n" + "".join(edges))
    return request.param, folder, words


def keywords(words):
    return {name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=True)}


def scores(metrics):
    numbers = {name: value for name, value in metrics.items() if isinstance(value, int | float)}
    return {name: value for name, value in numbers.items() if not any(word in name for word in COSTS)}


def unmasked(monkeypatch):
    """Let silos send their sums in the clear."""
    build = registry._built
    monkeypatch.setattr(registry, "_built", lambda *given: replace(build(*given), needs_secure_sum=False))
    monkeypatch.setattr(runs, "built", registry.build_packed)


@pytest.mark.parametrize("algorithm", ["auto", "fed-pc"])
def test_masks_change_neither_graph_nor_scores(kind, algorithm, monkeypatch):
    _, folder, words = kind
    given = keywords(words) | {"seed": 1, "bootstrap": 5 if algorithm == "auto" else 0}
    masked = learn(folder, algorithm, secure=True, **given).result
    with monkeypatch.context() as patch:
        unmasked(patch)
        plain = learn(folder, algorithm, **given).result
    assert (masked.secure, plain.secure) == (True, False)
    assert (masked.structure.adjacency == plain.structure.adjacency).all()
    np.testing.assert_allclose(masked.structure.weights, plain.structure.weights, atol=1e-5)
    assert scores(masked.metrics) == pytest.approx(scores(plain.metrics), rel=1e-4, abs=1e-5, nan_ok=True)
    assert masked.not_identified == plain.not_identified
    found = [[one.name for one in result.diagnosed.findings] for result in (masked, plain)]
    assert found[0] == found[1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["counts", "never together", "outliers", "steep label with gaps"], indirect=True)
def test_both_engines_learn_the_same(server, kind, tmp_path, capsys):
    _, folder, words = kind
    files = {}
    for engine in ("inline", "prefect"):
        out = tmp_path / engine
        code, _, err = run(capsys, "learn", folder, *words, "--seed", 1, "--engine", engine, "--out", out)
        assert code == 0, err
        files[engine] = out
    one, other = files.values()
    for file in ("structure.csv", "model.json"):
        assert (one / file).exists() == (other / file).exists()
        assert not (one / file).exists() or (one / file).read_bytes() == (other / file).read_bytes()
    metrics = [scores(json.loads((out / "metrics.json").read_text())) for out in (one, other)]
    assert metrics[0] == metrics[1]


def test_with_an_epsilon_a_table_is_learned_or_refused_in_one_line(kind, tmp_path, capsys):
    name, folder, words = kind
    columns = {}
    for path in folder.glob("*.csv"):
        if path.name != "truth.csv":
            columns |= pd.read_csv(path).items()
    labels = {column: sorted(set(cells.dropna())) for column, cells in columns.items() if not is_numeric_dtype(cells)}
    if name == "dates":
        del labels["e"]
    about = {"columns": {column: "discrete" if column in labels else "continuous" for column in columns}}
    (folder / "about.json").write_text(json.dumps(about | {"levels": labels}))
    out = tmp_path / "out"
    given = ("learn", folder, *words, "--epsilon", 40, "--engine", "inline", "--out", out)
    before = sorted(folder.rglob(".fedbnsl/*"))
    code, _, err = run(capsys, *given)
    (folder / "about.json").unlink()
    if name not in REFUSED:
        assert code == 0, err
        assert 0 < json.loads((out / "metrics.json").read_text())["epsilon"] <= 40
        return
    assert code == 2
    (line,) = err.strip().splitlines()
    assert REFUSED[name] in line
    assert not out.exists()
    assert sorted(folder.rglob(".fedbnsl/*")) == before


def counted_tables(seed, slope):
    rng = np.random.default_rng(seed)
    return dealt(counted(chain(rng), rng, slope))


@pytest.mark.parametrize("slope", [0.25, 0.35, 0.5])
def test_a_count_among_numbers_of_equal_variance_is_no_cause_of_them_all(slope):
    """With the count first, the residual variances are equal up to sampling error, but there are false edges."""
    found = learn(counted_tables(6, slope), seed=1, bootstrap=0, diagnose=False, parameters=False)
    edges = {frozenset(pair) for pair in found.graph.edges}
    assert edges == {frozenset(pair) for pair in ("ab", "bc", "cd", "de", ("e", "visits"))}
    assert all(
        found.graph.has_edge(v, u) for u, v in found.graph.edges
    )  # neither variances nor errors of a count determine directions
    assert found.result.basis[0].startswith("Errors of counts (visits) and of other numbers are not of equal variance")


def test_declarations_of_columns_that_not_all_silos_have_are_no_error(tmp_path):
    for silo, part in dealt(chain(np.random.default_rng(3)), one=["e"]).items():
        part.to_csv(tmp_path / f"{silo}.csv", index=False)
    about = {"columns": dict.fromkeys("abcde", "continuous")}
    (tmp_path / "about.json").write_text(json.dumps(about))
    assert learn(tmp_path, columns="common", bootstrap=0).result.schema.variables == (*"abcd",)
    (tmp_path / "about.json").write_text(json.dumps({"columns": about["columns"] | {"f": "continuous"}}))
    with pytest.raises(BadInput, match=r"about.json: columns: 'f' is not a column of the data"):
        learn(tmp_path, columns="common")
