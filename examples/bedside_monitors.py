"""Bedside monitors: hourly vital signs with a trend, a daily season, gaps and alarms, in four hospitals."""

# %% Data, drawn so that the truth is known: low oxygen makes breathing faster an hour later, and sets off alarms.
import numpy as np
import pandas as pd

from fedbnsl import learn

LEVEL, DAILY = [37.0, 80.0, 16.0, 96.0], [0.8, 5.0, 2.0, 0.8]


def stay(patient: str, rng: np.random.Generator, hours: int = 400) -> pd.DataFrame:
    """The rows of one patient: a fever that rises, a season of 24 hours, and a night off the monitor."""
    clock, x = np.arange(hours), np.zeros((hours, 4))
    for t, errors in enumerate(rng.normal(0.0, [0.2, 1.2, 0.6, 0.4], (hours, 4))):
        x[t] = errors + 0.6 * x[t - 1]
        x[t, 1] += 2.0 * x[t, 0]
        x[t, 2] -= 0.7 * x[t - 1, 3]
    alarm = np.where(x[:, 3] + rng.logistic(0.0, 0.1, hours) < -0.4, "on", "off")
    x += LEVEL + np.sin(2 * np.pi * clock / 24)[:, None] * DAILY + clock[:, None] / 100 * [1.0, 0.0, 0.0, 0.0]
    rows = pd.DataFrame(x, columns=["temperature", "heart", "breaths", "oxygen"])
    rows[(clock >= 330) & (clock < 340)] = np.nan
    return rows.assign(alarm=alarm, time=clock, series=patient)


rng = np.random.default_rng(1)
hospitals = {
    name: pd.concat([stay(f"{name}-{patient}", rng) for patient in range(patients)])
    for name, patients in {"north": 2, "east": 3, "south": 4, "west": 5}.items()
}

# %% The vital signs as they are: their common season looks like effects. The diagnosis names it, and the remedy.
signs = {name: rows.drop(columns="alarm") for name, rows in hospitals.items()}
raw = learn(signs)
print(raw, *(finding.message for finding in raw.result.diagnosed.findings), sep="\n")

# %% Each hospital subtracts the season from its own series before it sums. What is left is a trend, the fever.
# Hours off the monitor are empty cells. The season is fitted to the others, and the run models the empty ones.
steady = learn(signs, deseasonalise=24)
print(steady, *(finding.message for finding in steady.result.diagnosed.findings), *steady.result.notes, sep="\n")

# %% Without season and trend, the effects remain. The forecast is compared with "as an hour ago".
found = learn(signs, deseasonalise=24, detrend=True, secure=True)
print(found, *found.result.diagnosed.findings)
print("within the hour:", found.weights.round(2), "an hour later:", found.lagged[0].round(2), sep="\n")
print({name: round(found.metrics[name], 2) for name in ("forecast_mse", "persistence_mse")})

# %% With the alarms, whose levels are declared. The edge into the alarm is the rule of the monitor, not physiology.
LEVELS = {"kind": "time-series", "levels": {"alarm": ["off", "on"]}}
alarms = learn(hospitals, about=LEVELS, deseasonalise=24, detrend=True, bootstrap=0)
print(alarms, "alarms depend on:", *alarms.features("alarm").parents, *alarms.features("alarm").neighbours)

# %% The graph says which sign changes first, given the others in the table.
# It does not say that lowering the temperature would lower the heart rate: a drug that lowers both is not in the table,
# and would appear as such an edge.
print(*found.result.basis, *(f"{cause} → {effect}" for cause, effect in found.graph.edges()), sep="\n")
