"""A registry with survival: what the hazard of death depends on, at three hospitals that share no row."""

# %% Data: a person a row, from diagnosis on. Drawn: who is old or sick gets less surgery; the registry ends one day.
import numpy as np
import pandas as pd

from fedbnsl import learn

levels = {"smoking": ["never", "former", "current"], "stage": ["I", "II", "III"], "surgery": ["no", "yes"]}
about = {"survival": {"death": ["days", "died"]}, "levels": levels}
frames = {}
for number, hospital in enumerate(("north", "south", "west")):
    rng, n = np.random.default_rng([7, number]), 900 + 300 * number
    age = rng.normal(64 + number, 10, n).round()
    smoking = np.digitize(rng.normal(size=n) - 0.01 * (age - 64), [-0.2, 0.7])
    stage = np.digitize(rng.normal(size=n) + 0.3 * smoking + 0.01 * (age - 64), [0.4, 1.4])
    surgery = (rng.logistic(size=n) < 1.2 - 0.05 * (age - 64) - 0.9 * stage).astype(int)
    hazard = 0.05 * (age - 64) + 0.6 * stage + 0.3 * (smoking == 2) - 0.7 * surgery + 0.3 * number
    death = 2200 * (rng.exponential(size=n) * np.exp(-hazard)) ** (1 / 1.2)
    seen = rng.uniform(150, 2500, n)
    codes = {"smoking": smoking, "stage": stage, "surgery": surgery}
    labels = {name: np.array(levels[name])[own] for name, own in codes.items()}
    times = {"days": np.ceil(np.minimum(death, seen)), "died": (death <= seen).astype(int)}
    frames[hospital] = pd.DataFrame({"age": age, **labels, **times})
    print(f"{hospital}: {n} people, {times['died'].sum()} deaths, followed for {np.median(times['days']):.0f} days")

# %% Learning, with the order of time as knowledge. The outcome needs no place in it, because it is a sink.
order = "age<smoking<stage<surgery"
found = learn(frames, about=about, tiers=order, secure=True, bootstrap=20)
(outcome,) = found.result.survival
print(found, outcome.basis, sep="\n")

# %% Crude and adjusted: people with surgery are younger and in earlier stages, so the crude ratio flatters surgery.
people = pd.concat(frames.values()).groupby("surgery")[["died", "days"]].sum()
crude = people["died"].div(people["days"]).loc["yes"] / people["died"].div(people["days"]).loc["no"]
surgery = found.effect("surgery", "death", direct=True)
adjusted = surgery.effects[0].candidates[0].estimate.hazard_ratio
print(f"crude rate ratio {crude:.2f}, adjusted hazard ratio {adjusted.value:.2f}")

# %% Risks if all had surgery, and if none had: a hazard ratio is no ratio of risks, and these are numbers for a person.
risks = {}
for years, one in ((1, "no"), (1, "yes"), (3, "no"), (3, "yes")):
    answer = found.query(f"P(death within {365 * years} | do(surgery={one}))")
    risks[years, one], (low, high) = answer.answer.probabilities[()], answer.interval
    print(f"surgery {one}, {years} years: {risks[years, one]:.3f}, 95 % interval {low:.3f} to {high:.3f}")

# %% Is the ratio the same early and late? If the first year's differed much, one number for all years would mislead.
early = {
    one: f.assign(days=f["days"].clip(upper=365), died=f["died"].where(f["days"] <= 365, 0))
    for one, f in frames.items()
}
first = learn(early, about=about, tiers=order, secure=True, bootstrap=0, required="surgery->death")
year_one = first.effect("surgery", "death", direct=True).effects[0].candidates[0].estimate.hazard_ratio
print(f"first year: {year_one.value:.2f}, {year_one.interval[0]:.2f} to {year_one.interval[1]:.2f}")

# %% What it rests on. Who decides on surgery sees more than age and stage: frailty in no column would flatter surgery.
# People who move away may be ill, so censoring may depend on who dies. The parents were selected from the same rows.
print(surgery, sep="\n")
found.plot_survival("death")
