"""Every option of `prepare` changes the data: a table with another value for each, for each kind of data."""

from importlib.util import find_spec

import numpy as np
import pytest

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.folder import write_folder
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.flows.options.prepare import KINDS, recipe

SMALL = {"silos": 3, "rows": 40}
GRAPH = {**SMALL, "variables": 6}
BASES = {
    "homogeneous": GRAPH,
    "heterogeneous": GRAPH,
    "nonlinear": GRAPH,
    "interventions": {**GRAPH, "silos": 4, "targeted_silos": 1},
    "discrete": GRAPH,
    "mixed": GRAPH,
    "surrogate": GRAPH,
    "sachs": {},
    "network": {**SMALL, "network": "cancer"},
    "lucas": SMALL,
    "split": {"table": "table.csv", "silos": 3},
    "amputate": {"source": "study"},
    "dynamic": {"silos": 3, "rows": 30, "variables": 4},
    "events": {"silos": 3, "events": 300, "devices": 12, "variables": 4},
    "series": {"table": "series.csv"},
}
OTHER = {
    "variables": 7,
    "silos": 2,
    "rows": 35,
    "seed": 1,
    "edges": 3,
    "graph": "SF",
    "noise": "uniform",
    "weight_variance": 0.9,
    "experiment": "soft",
    "targeted_silos": 2,
    "strength": 0.7,
    "degree": 1.0,
    "levels": "6",
    "concentration": 0.3,
    "latent": 1,
    "effects": "slopes",
    "site_means": 9.0,
    "unequal": False,
    "parents": 0,
    "network": "earthquake",
    "by_condition": True,
    "truth": "true.csv",
    "transform": "log",
    "center": True,
    "discrete": True,
    "version": "2",
    "table": "other.csv",
    "sizes": [50, 30, 10],
    "by": {"split": "ward", "series": "person"},
    "small_silos": "merge",
    "skew": "ward",
    "surrogate": 2,
    "data_kind": "continuous",
    "source": "another",
    "mechanism": "mar",
    "share": 0.4,
    "lags": 2,
    "lagged_degree": 2.0,
    "decay": 4.0,
    "heterogeneity": 0.3,
    "own_structures": True,
    "labels": 3,
    "series": {"dynamic": 2, "series": "person"},
    "events": 200,
    "links": 1.0,
    "devices": 9,
    "time": "clock",
    "standardise": True,
}
"""another value of each option, by kind of data if the option's meaning depends on it"""
SPECIAL = {
    ("series", "silos"): {"silos": 1},
    ("sachs", "truth"): {"truth": "17"},
    ("sachs", "rows"): {"discrete": True, "rows": 35},
    ("sachs", "seed"): {"seed": 1},
    ("split", "concentration"): {"concentration": 0.5},
    ("split", "sizes"): {"silos": None, "sizes": [50, 30, 10]},
    ("split", "by"): {"silos": None, "by": "ward"},
    ("split", "small_silos"): {"silos": None, "by": "ward", "small_silos": "merge"},
    ("dynamic", "decay"): {"lags": 2, "decay": 4.0},
}
"""other options that an option requires"""
BESIDE = {
    ("sachs", "rows"): {"discrete": True},
    ("split", "small_silos"): {"silos": None, "by": "ward"},
    ("dynamic", "decay"): {"lags": 2},
    ("interventions", "strength"): {"experiment": "inhibiting", "targeted_silos": 3},
}
"""for some options, the run to compare with"""
OF_FILES = {"form"}
"""options that change how rows are written, not what they are"""


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """Work in a folder with two tables, two series, a truth and two data sets."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    wards = rng.choice(["north", "south"], 90)
    wards[:2] = ["attic", ""]  # two silos with too few rows
    for name, shift in (("table.csv", 0), ("other.csv", 3)):
        numbers = rng.integers(0, 3, (90, 3)) + shift
        rows = [f"{a},{b},{c},{ward}" for (a, b, c), ward in zip(numbers.tolist(), wards, strict=True)]
        (tmp_path / name).write_text("\n".join(["a,b,c,ward", *rows]) + "\n")
    for name, shift in (("series.csv", 0.0), ("other-series.csv", 5.0)):
        walk = rng.normal(shift, 1, (60, 2))
        lines = [f"{k // 30},{k // 15},{k % 30},{59 - k},{a:.5f},{b:.5f}" for k, (a, b) in enumerate(walk.tolist())]
        (tmp_path / name).write_text("\n".join(["series,person,time,clock,a,b", *lines]) + "\n")
    (tmp_path / "true.csv").write_text("source,target\na,b\n")
    for name, seed in (("study", 1), ("another", 2)):
        write_folder(tmp_path / name, homogeneous(4, 2, 50, seed))


def seen(kind, options):
    """Return the contents of a data set: rows by silo, variables, levels, stretches and true graph; or the error."""
    try:
        data = recipe(kind, **options).build()
    except BadInput as error:
        return str(error)
    tables = {silo: np.asarray(table, float).tobytes() for silo, table in sorted(data.tables.items())}
    truth = None if data.truth is None else (data.truth.kind, data.truth.weights.tobytes())
    lagged = None if data.truth is None or data.truth.lagged is None else data.truth.lagged.tobytes()
    schema = data.schema
    return tables, schema.variables, schema.kind, schema.levels, schema.stretches, truth, lagged


CASES = [
    (kind, name) for kind, model in KINDS.items() for name in model.model_fields if name not in ("kind", *OF_FILES)
]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_an_option_changes_the_data(kind, name):
    if kind == "sachs" and not find_spec("cdt"):
        pytest.skip("the table of Sachs comes with cdt, which is not installed")
    value = OTHER[name]
    other = {name: value[kind] if isinstance(value, dict) else value}
    if (kind, name) == ("series", "table"):
        other = {"table": "other-series.csv"}
    base = BASES[kind] | BESIDE.get((kind, name), {})
    before = seen(kind, base)
    assert not isinstance(before, str), before
    assert seen(kind, base) == before
    assert seen(kind, base | SPECIAL.get((kind, name), other)) != before


@pytest.mark.parametrize("kind", [kind for kind, model in KINDS.items() if OF_FILES & set(model.model_fields)])
def test_the_form_asked_for_is_that_of_the_files(tmp_path, kind):
    for form in ("csv", "parquet"):
        made = recipe(kind, **BASES[kind] | {"form": form})
        write_folder(tmp_path / form, made.build(), form=made.file_form)
        assert {path.suffix for path in (tmp_path / form).iterdir() if path.stem.startswith("silo")} == {f".{form}"}
