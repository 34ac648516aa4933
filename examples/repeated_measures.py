"""Repeated measures: several visits of each patient are less evidence than as many patients."""

# %% Three clinics. A patient has four to six visits; half of each variance is alike at all visits of a patient.
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pandas as pd

from fedbnsl import learn

rng, folder = np.random.default_rng(11), Path(mkdtemp())
names = ("dose", "sleep", "steps", "pressure", "pulse", "mood", "weight")
for number, clinic in enumerate(("north", "east", "south")):
    patients = 60 + 20 * number
    patient = np.repeat(np.arange(patients), rng.integers(4, 7, patients))
    own = rng.normal(size=(patients, len(names)))[patient]
    values = pd.DataFrame((own + rng.normal(size=own.shape)) / np.sqrt(2), columns=names)
    values["pressure"] = 10 * (values["pressure"] - 0.4 * values["dose"]) + 130 + 5 * number
    values["pulse"] += 0.04 * values["pressure"]
    values["mood"] += 0.5 * values["sleep"]
    values["patient_id"] = 1000 * number + 7 * patient
    values.sample(frac=1, random_state=number).to_csv(folder / f"{clinic}.csv", index=False)

# %% First as if all rows were independent. The finding names the design effect, and what to do.
naive = learn(folder, bootstrap=0)
for finding in naive.result.diagnosed.findings:
    print(finding.message, finding.advice)
print(sorted(naive.graph.edges()))

# %% With the column of patients. The ids stay with the clinics: one masked sum shows how alike a patient's rows are.
found = learn(folder, cluster="patient_id", bootstrap=50)
print(found.result.basis[-1])
print(sorted(found.graph.edges()))
rows = sum(found.result.schema.rows.values())
print(f"{found.result.independent_share * rows:.0f} independent rows of {rows}")

# %% The effect of the dose, which is given before the pressure is measured: the interval is that of patients.
order = "dose,sleep,steps<pressure,mood,weight<pulse"
widths = {}
for title, options in (("patients", {"cluster": "patient_id"}), ("independent rows", {"ignore": "patient_id"})):
    run = learn(folder, tiers=order, required_arcs="dose->pressure", bootstrap=0, **options)
    effect = run.effect("dose", "pressure", data=folder)
    low, high = effect.effects[0].candidates[0].estimate.interval
    widths[title] = high - low
    print(f"{title}: {effect.effects[0].value:+.2f}, 95 % interval {low:+.2f} to {high:+.2f}")

# %% What the wider interval does not repair: doses chosen by how sick a patient is, and effects from visit to visit.
# If sicker patients get higher doses at all of their visits, that is confounding: it needs a column of what the dose
# was chosen by. An effect from one visit on the next one needs the order of visits: a series for each patient (--time).
print(effect)
