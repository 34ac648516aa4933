"""Time series in several silos: edges within one time step, edges from earlier ones, and silos that differ a little."""

# %% Data: 3 silos, each with a recording of 4 variables. A column `time` says that rows follow each other.
import pandas as pd

from fedbnsl import learn, prepare

made = prepare("dynamic", variables=4, silos=3, rows=200, seed=1)
tables = {
    silo: pd.DataFrame(rows, columns=made.schema.variables).assign(time=range(len(rows)))
    for silo, rows in made.tables.items()
}

# %% How far back do edges reach? BIC chooses, from one masked sum.
found = learn(tables)
print(found)
print("within one time step:", found.weights.round(2), sep="\n")
for lag, weights in enumerate(found.lagged, start=1):
    print(f"from {lag} step(s) before:", weights.round(2), sep="\n")

# %% Does it forecast better than "as it was", and does a shock die out?
print({name: found.metrics[name] for name in ("lags", "forecast_mse", "persistence_mse", "spectral_radius")})
found.plot()

# %% A network of each silo's own, as near to the others' as helps it.
personal = learn(tables, "pfdbnl", rounds=20)
for silo, own in personal.result.local_structures.items():
    print(silo, own.weights.round(2).tolist())

# %% The model is over several times: nodes such as x1 and x1[t-1].
print(sorted(map(str, found.to_pgmpy().nodes())))
