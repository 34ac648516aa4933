"""A registry of three hospitals with a survival outcome: time under observation, and whether the person died."""

import json

import numpy as np
import pandas as pd

SMOKING = ("never", "former", "current")
PARENTS = {"age", "smoking"}


def write_registry(folder, n=1500, *, kind="mixed", gaps=False, truth=False, about=None):
    """Write the registry; with `kind` continuous or discrete, the other columns are of this kind only."""
    folder.mkdir()
    for p, silo in enumerate(("north", "south", "west")):
        rng, rows = np.random.default_rng([p, n]), n // 3
        age = rng.normal(60 + p, 9, rows)
        smoking = np.digitize(rng.normal(size=rows) + 0.02 * (age - 60), [-0.3, 0.6])
        pressure = 120 + 0.6 * (age - 60) + 5 * smoking + rng.normal(0, 8, rows)
        linear = 0.06 * (age - 60) + np.array([0, 0.5, 1.0])[smoking] + 0.3 * p
        times = 1500 * (rng.exponential(size=rows) * np.exp(-linear)) ** (1 / 1.3)
        ends = rng.uniform(200, 2500, rows)
        frame = pd.DataFrame(
            {"age": age.round(1), "smoking": np.array(SMOKING)[smoking], "pressure": pressure.round(1)}
        )
        frame["noise"] = rng.normal(size=rows).round(3)
        if kind == "continuous":
            frame["smoking"] = smoking + rng.normal(0, 0.01, rows).round(4)
        if kind == "discrete":
            for name in ("age", "pressure", "noise"):
                frame[name] = np.where(frame[name] > frame[name].median(), "high", "low")
        frame["days"], frame["died"] = np.ceil(np.minimum(times, ends)).astype(int), (times <= ends).astype(int)
        if gaps:
            frame.loc[::5, "noise"] = np.nan
            frame["days"] = frame["days"].astype("Int64").mask(np.arange(rows) % 50 == 3)
        frame.to_csv(folder / f"{silo}.csv", index=False)
    declared = {"survival": {"death": ["days", "died"]}} | (about or {})
    if kind != "continuous":
        declared["levels"] = {"smoking": list(SMOKING)}
    (folder / "about.json").write_text(json.dumps(declared))
    if truth:
        arcs = ["age,smoking", "age,pressure", "smoking,pressure", "age,death", "smoking,death"]
        (folder / "truth.csv").write_text("\n".join(["source,target", *arcs]) + "\n")
    return folder
