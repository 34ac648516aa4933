"""Check that a change of the code changes no result: record a fixed list of runs and compare them later.

    python benchmarks/unchanged.py record FILE.json     # with the version to compare with
    python benchmarks/unchanged.py compare FILE.json    # with the version at hand; exit code 1 if anything differs
    python benchmarks/unchanged.py compare FILE.json fed-pc pc    # only the runs whose names begin so

Structure, scores, metrics, the rows of all rounds, local structures and parameters are compared bit for bit. Only the
seconds are left out; metrics that are not in FILE.json are named, and not compared. Floating-point sums depend on the
machine's BLAS, so both versions must run on the same machine.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedbnsl import learn, prepare

DATA: dict[str, dict[str, Any]] = {
    "er10": {"kind": "homogeneous", "variables": 10, "silos": 4, "rows": 300, "seed": 100},
    "er20": {"kind": "homogeneous", "variables": 20, "silos": 8, "rows": 1000, "seed": 101},
    "er12-large": {"kind": "homogeneous", "variables": 12, "silos": 3, "rows": 4000, "seed": 102},
    "own-weights": {"kind": "heterogeneous", "variables": 8, "silos": 5, "rows": 60, "seed": 103},
    "curved": {"kind": "nonlinear", "variables": 6, "silos": 3, "rows": 100, "seed": 109},
    "sachs": {"kind": "sachs", "silos": 3},
    "random10": {"kind": "discrete", "variables": 10, "silos": 3, "rows": 800, "seed": 104},
    "biased": {"kind": "surrogate", "variables": 8, "silos": 3, "rows": 800, "seed": 105, "parents": 3},
    "hidden": {"kind": "discrete", "variables": 9, "silos": 2, "rows": 1500, "seed": 106, "latent": 1},
    "asia": {"kind": "network", "network": "asia", "silos": 3, "rows": 1000, "seed": 107},
    "alarm": {"kind": "network", "network": "alarm", "silos": 3, "rows": 400, "seed": 108},
}

SEEDED = {"insecure_seed": 3}
RUNS: dict[str, tuple[str, str, dict[str, Any]]] = {
    # consensus ADMM: ours, the papers' presets, masked
    "fed-sparse": ("er20", "fed-sparse", {}),
    "fed-sparse own weights": ("own-weights", "fed-sparse", {}),
    "fed-sparse paper": ("er10", "fed-sparse", {"preset": "paper"}),
    "fed-sparse paper-sachs": ("sachs", "fed-sparse", {"preset": "paper-sachs", "rounds": 30}),
    "fed-sparse sachs": ("sachs", "fed-sparse", {"preset": "sachs", "rounds": 30, "parameters": False}),
    "fed-sparse secure": ("er10", "fed-sparse", {"secure": True}),
    "fed-sparse paper secure": ("er10", "fed-sparse", {"preset": "paper", "secure": True, "rounds": 25}),
    "fed-sparse unscaled": ("er10", "fed-sparse", {"scaled": False}),
    "fed-sparse no turns": ("er10", "fed-sparse", {"order_searches": 0, "relax": False, "send_threshold": 0}),
    "fed-sparse centred, repaired": ("er10", "fed-sparse", {"center": True, "fix_order": False, "repair": "cycles"}),
    "fed-bfci": ("er20", "fed-bfci", {}),
    "notears-admm": ("er20", "notears-admm", {}),
    "notears-admm paper": ("er10", "notears-admm", {"preset": "paper"}),
    "notears-admm fed-bnsl-sachs": ("sachs", "notears-admm", {"preset": "fed-bnsl-sachs", "rounds": 30}),
    "notears-admm secure": ("er10", "notears-admm", {"secure": True}),
    "fed-frank-wolfe": ("er10", "fed-frank-wolfe", {"rounds": 30}),
    "notears": ("er10", "notears", {}),
    "notears-local": ("er10", "notears-local", {}),
    "notears-voting": ("own-weights", "notears-voting", {}),
    "notears-best": ("er10", "notears-best", {}),
    # one sum of second moments
    "secure-sum": ("er20", "secure-sum", {}),
    "secure-additive": ("curved", "secure-additive", {}),
    "notears-mlp-admm": ("curved", "notears-mlp-admm", {}),
    "notears-mlp-admm secure": ("curved", "notears-mlp-admm", {"secure": True, "rounds": 12}),
    "notears-mlp": ("curved", "notears-mlp", {}),
    "notears-mlp-voting": ("curved", "notears-mlp-voting", {}),
    "notears-mlp-best": ("curved", "notears-mlp-best", {}),
    "secure-sum notears": ("er10", "secure-sum", {"learner": "notears"}),
    "secure-sum fed-sparse": ("er10", "secure-sum", {"learner": "fed-sparse"}),
    "secure-sum notears-admm": ("er10", "secure-sum", {"learner": "notears-admm"}),
    "secure-sum pc": ("er10", "secure-sum", {"learner": "pc"}),
    "secure-sum ges": ("er10", "secure-sum", {"learner": "ges"}),
    "secure-sum private": ("er12-large", "secure-sum", {"epsilon": 2.0, **SEEDED}),
    "secure-sum private pc": ("er12-large", "secure-sum", {"epsilon": 5.0, "learner": "pc", **SEEDED}),
    "secure-sum private known scale": ("er12-large", "secure-sum", {"epsilon": 2.0, "known_scale": 1.5, **SEEDED}),
    "dp-covariance": ("er12-large", "dp-covariance", {"epsilon": 10.0, **SEEDED}),
    "dp-fed-sparse": ("er12-large", "dp-fed-sparse", {"epsilon": 10.0, **SEEDED}),
    "dp-fed-sparse secure": ("er12-large", "dp-fed-sparse", {"epsilon": 10.0, "rounds": 3, "secure": True, **SEEDED}),
    "dp-fed-sparse paper": ("er12-large", "dp-fed-sparse", {"preset": "paper", "rounds": 6, **SEEDED}),
    "dp-fed-sparse paper-mangold": ("er12-large", "dp-fed-sparse", {"preset": "paper-mangold", "rounds": 4, **SEEDED}),
    # independence tests
    "fed-pc": ("random10", "fed-pc", {}),
    "fed-pc biased": ("biased", "fed-pc", {}),
    "fed-pc continuous": ("er10", "fed-pc", {}),
    "fed-pc secure": ("random10", "fed-pc", {"secure": True}),
    "fed-pc projection": ("asia", "fed-pc", {"mode": "projection"}),
    "fed-pc majority g2": ("random10", "fed-pc", {"orientation": "majority", "statistic": "g2"}),
    "fed-pc private": ("random10", "fed-pc", {"epsilon": 10.0, **SEEDED}),
    "fed-fci": ("hidden", "fed-fci", {}),
    "fed-fci continuous": ("er10", "fed-fci", {}),
    "fed-fci private": ("random10", "fed-fci", {"epsilon": 10.0, "depth": 1, **SEEDED}),
    "pc": ("random10", "pc", {}),
    "fci": ("hidden", "fci", {}),
    "pc-voting": ("random10", "pc-voting", {}),
    "fci-voting": ("hidden", "fci-voting", {}),
    "pc-cit-voting": ("random10", "pc-cit-voting", {}),
    "fci-cit-voting continuous": ("er10", "fci-cit-voting", {}),
    # scores
    "rfcd": ("asia", "rfcd", {}),
    "fed-ges": ("alarm", "fed-ges", {}),
    "fed-ges fuse": ("asia", "fed-ges", {"client": "fuse", "quota": 0.0}),
    "secure-ges": ("alarm", "secure-ges", {}),
    "secure-ges secure": ("asia", "secure-ges", {"secure": True}),
    "secure-ges continuous": ("er10", "secure-ges", {}),
    "secure-boss": ("alarm", "secure-boss", {}),
    "secure-boss continuous": ("er20", "secure-boss", {}),
    "ges": ("alarm", "ges", {}),
    "boss": ("asia", "boss", {"score": "bic"}),
    "ges-union": ("asia", "ges-union", {}),
    # the same loop under Prefect, Dask and MLflow
    "prefect fed-sparse": ("er10", "fed-sparse", {"engine": "prefect"}),
    "prefect fed-sparse secure": ("er10", "fed-sparse", {"engine": "prefect", "secure": True}),
    "prefect secure-sum private": ("er12-large", "secure-sum", {"engine": "prefect", "epsilon": 2.0, **SEEDED}),
    "prefect fed-pc": ("random10", "fed-pc", {"engine": "prefect"}),
    "prefect boss": ("asia", "boss", {"engine": "prefect"}),
}
"""name -> data set, algorithm, options of `learn`; every algorithm and preset, both engines, masked and private"""


def main() -> None:
    """Record or compare."""
    if len(sys.argv) < 3 or sys.argv[1] not in ("record", "compare", "run"):
        raise SystemExit(__doc__)
    path = Path(sys.argv[2])
    if sys.argv[1] == "run":  # one run in a process of its own: path is its folder
        (path / "digest.json").write_text(json.dumps(run(path.name, path.parent.parent)), encoding="utf-8")
        os._exit(0)  # otherwise Prefect would wait for a server that ended with the run
    found = all_runs(tuple(sys.argv[3:]))
    if sys.argv[1] == "record":
        path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        return
    recorded = json.loads(path.read_text(encoding="utf-8"))
    expected = {name: one for name, one in recorded.items() if len(sys.argv) == 3 or name in found}
    new = new_metrics(expected, found)
    if new:
        print(f"not compared, as the recording does not have them: {', '.join(new)}")
    differing = [name for name in expected if found.get(name) != expected[name]]
    for name in differing:
        print(f"{name}: {difference(expected[name], found.get(name, {}))}")
    print(f"{len(expected) - len(differing)} of {len(expected)} runs are the same")
    raise SystemExit(bool(differing))


def all_runs(chosen: tuple[str, ...]) -> dict[str, Any]:
    """Return the results of all runs, or of those whose names begin with one of `chosen`.

    Those under Prefect have a process, with a server, of their own.
    """
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, options in DATA.items():
            prepare(out=Path(scratch) / name, **options)
        for name, (_, _, told) in RUNS.items():
            if chosen and not name.startswith(chosen):
                continue
            start = time.process_time()
            if "engine" in told:
                folder = Path(scratch) / "runs" / name
                folder.mkdir(parents=True)
                subprocess.run([sys.executable, __file__, "run", folder], check=True, capture_output=True, cwd=scratch)
                found[name] = json.loads((folder / "digest.json").read_text(encoding="utf-8"))
            else:
                found[name] = run(name, Path(scratch))
            print(f"{time.process_time() - start:6.2f} CPU s  {name}", flush=True)
    return found


def run(name: str, scratch: Path) -> dict[str, Any]:
    """Return the result of the run `name` on its data set, which is in `scratch`."""
    data, algorithm, told = RUNS[name]
    out = {"out": scratch / "runs" / name / "out"} if "engine" in told else {}
    return digest(learn(scratch / data, algorithm, **out, **told))


def digest(learned: Any) -> dict[str, Any]:
    """A run as JSON, with digests that depend on every bit of its arrays."""
    result = learned.result
    kept = {
        "structure": result.structure,
        "local_structures": result.local_structures,
        "metrics": {name: value for name, value in result.metrics.items() if name != "seconds"},
        "rounds": columns_of(result.rounds),
        "refit": result.refit,
        "network": model_of(result),
        "spent": result.privacy and result.privacy.ever,
    }
    plain: dict[str, Any] = json.loads(json.dumps(_plain(kept)))
    return plain


def model_of(result: Any) -> dict[str, Any] | None:
    """The numbers of the model of a run: its tables, or its structure with intercepts and variances."""
    network = result.parameters.network
    if network is None:
        return None
    if network.discrete:
        return {name: getattr(network, name) for name in ("variables", "levels", "parents", "tables")}
    scores = result.structure.scores if result.privacy else None  # a private run's model has the learned structure
    structure = replace(network.structure, scores=scores)
    return {"structure": structure, "intercepts": network.intercepts, "variances": network.variances}


def columns_of(rows: Sequence[Mapping[str, float]]) -> dict[str, str]:
    """A digest of every column of `rounds.csv`."""
    named = dict.fromkeys(name for row in rows for name in row)
    values = {name: json.dumps([row.get(name) for row in rows]) for name in named}
    return {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in values.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        content = np.ascontiguousarray(value) + 0.0  # minus zero counts as zero
        return hashlib.sha256(repr(content.shape).encode() + content.tobytes()).hexdigest()[:16]
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, dict):
        static = {key: item for key, item in value.items() if item is not None or not str(key).startswith("lagged")}
        return {str(key): _plain(item) for key, item in static.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def new_metrics(expected: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """Remove from the `found` runs the metrics that the `expected` runs do not have, and return their names."""
    new = set()
    for name in expected.keys() & found.keys():
        more = found[name]["metrics"].keys() - expected[name]["metrics"].keys()
        for metric in more:
            del found[name]["metrics"][metric]
        new |= more
    return sorted(new)


def difference(expected: Any, found: Any) -> str:
    """Where two runs differ first."""
    for key in expected:
        if isinstance(expected[key], dict) and isinstance(found.get(key), dict):
            inner = [name for name in expected[key] if expected[key][name] != found[key].get(name)]
            if inner:
                return f"{key}.{inner[0]}: {expected[key][inner[0]]} became {found[key].get(inner[0])}"
        if found.get(key) != expected[key]:
            return f"{key} differs"
    return "more than before"


if __name__ == "__main__":
    main()
