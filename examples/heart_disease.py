"""Heart disease at four hospitals: from a folder of tables to "what if", and what each answer rests on."""

# %% Data: a table for each hospital. The UCI records of 1988, if FEDBNSL_DATA names their folder.
import os
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pandas as pd

from fedbnsl import learn

recorded = Path(os.environ.get("FEDBNSL_DATA", ".")) / "heart_disease" / "heart_disease_4sites.csv.gz"
if recorded.exists():
    patients = pd.read_csv(recorded).rename(columns={"trestbps": "pressure", "thalach": "heart_rate"})
    patients["chol"] = patients["chol"].where(patients["chol"] > 0)  # 0 stands for "not measured"
    patients["angina"], patients["disease"] = patients["exang"], patients["num"] > 0
else:
    print("FEDBNSL_DATA names no folder with heart_disease: the patients are drawn")
    rng, n = np.random.default_rng(5), 920
    patients = pd.DataFrame({"site": rng.choice(["A", "B", "C", "D"], n), "age": rng.normal(54, 9, n).round()})
    patients["sex"], patients["chol"] = rng.random(n) < 0.7, rng.normal(240, 50, n)
    patients["pressure"] = rng.normal(105, 15, n) + 0.5 * patients["age"]
    patients["disease"] = rng.logistic(size=n) < 0.05 * (patients["age"] - 60) + 1.5 * patients["sex"]
    patients["heart_rate"] = rng.normal(195, 20, n) - patients["age"] - 12 * patients["disease"]
    patients["angina"] = rng.logistic(size=n) < 2 * patients["disease"] - 1.5
    patients["oldpeak"] = rng.exponential(0.5, n) + 0.8 * patients["disease"] + 0.4 * patients["angina"]

labels = {"sex": ("female", "male"), "angina": ("no", "yes"), "disease": ("no", "yes")}
for column, (low, high) in labels.items():
    patients[column] = patients[column].astype(float).map({0: low, 1: high})
columns = ["age", "sex", "pressure", "chol", "disease", "heart_rate", "angina", "oldpeak"]
folder = Path(mkdtemp())
for site, rows in patients.groupby("site"):
    rows[columns].to_csv(folder / f"{site}.csv", index=False)

# %% Learning, with what is known without data: nothing causes age and sex, and the exercise test follows the disease.
order = "age,sex<pressure,chol<disease<heart_rate,angina,oldpeak"
found = learn(folder, tiers=order, secure=True, bootstrap=50)
strengths = found.result.confidence.strengths
for source, target in found.graph.edges():
    i, j = strengths.variables.index(source), strengths.variables.index(target)
    print(f"{source} -> {target}: in {strengths.strength[i, j]:.0%} of the resamples")
for finding in found.result.diagnosed.findings:
    print(finding.message)

# %% What if: effects from masked fits over the rows, with all that they rest on, and the same of a permuted treatment.
sex = found.effect("sex", "disease", data=folder, placebo=3)
print(sex)
rate = found.effect("disease", "heart_rate", data=folder, placebo=3)
print(rate)

# %% Both would be wrong if the order were wrong, or if something unmeasured acted on both variables.
# Who is referred to these hospitals may depend on sex and on symptoms: then women and men with the same disease differ
# in who is in the tables, and no adjustment for the columns here repairs that. The effect is one among the referred.
found.plot()
