"""Time series in several silos: edges within one time step, lagged edges, and silos that differ slightly."""

# %% Data: 3 silos, each with a recording of 4 variables. A column `time` marks the data as time series.
import pandas as pd

from fedbnsl import learn, prepare

made = prepare("dynamic", variables=4, silos=3, rows=200, seed=1)
tables = {
    silo: pd.DataFrame(rows, columns=made.schema.variables).assign(time=range(len(rows)))
    for silo, rows in made.tables.items()
}

# %% BIC chooses the number of lags, from one masked sum.
found = learn(tables)
print(found)
print("within one time step:", found.weights.round(2), sep="\n")
for lag, weights in enumerate(found.lagged, start=1):
    print(f"from {lag} step(s) before:", weights.round(2), sep="\n")

# %% Compare its forecasts with a persistence forecast, and check whether shocks fade out.
print({name: found.metrics[name] for name in ("lags", "forecast_mse", "persistence_mse", "spectral_radius")})
found.plot()

# %% A network for each silo, shrunk towards a common one.
personal = learn(tables, "pfdbnl", rounds=20)
for silo, own in personal.result.local_structures.items():
    print(silo, own.weights.round(2).tolist())

# %% The model has nodes for several times, such as x1 and x1[t-1].
print(sorted(map(str, found.to_pgmpy().nodes())))
