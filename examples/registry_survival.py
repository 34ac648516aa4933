"""A registry with survival: what the hazard of death depends on, at three hospitals that share no row."""

# %% Data: a person a row, entered at diagnosis. Drawn here, with a treatment that older and sicker people get less
# often.
import numpy as np
import pandas as pd

from fedbnsl import learn

frames = {}
for number, hospital in enumerate(("north", "south", "west")):
    rng, n = np.random.default_rng([7, number]), 900 + 300 * number
    age = rng.normal(64 + number, 10, n).round()
    smoking = np.digitize(rng.normal(size=n) - 0.01 * (age - 64), [-0.2, 0.7])
    stage = np.digitize(rng.normal(size=n) + 0.3 * smoking + 0.01 * (age - 64), [0.4, 1.4])
    surgery = rng.logistic(size=n) < 1.2 - 0.05 * (age - 64) - 0.9 * stage
    hazard = 0.05 * (age - 64) + 0.6 * stage + 0.3 * (smoking == 2) - 0.7 * surgery + 0.3 * number
    death = 2200 * (rng.exponential(size=n) * np.exp(-hazard)) ** (1 / 1.2)
    seen = rng.uniform(
        150, 2500, n
    )  # the registry ends on one day, so those who entered late are seen for a short time
    frames[hospital] = pd.DataFrame(
        {
            "age": age,
            "smoking": np.array(["never", "former", "current"])[smoking],
            "stage": np.array(["I", "II", "III"])[stage],
            "surgery": np.where(surgery, "yes", "no"),
            "days": np.ceil(np.minimum(death, seen)),
            "died": (death <= seen).astype(int),
        }
    )
about = {
    "survival": {"death": ["days", "died"]},
    "levels": {"smoking": ["never", "former", "current"], "stage": ["I", "II", "III"], "surgery": ["no", "yes"]},
}
for hospital, rows in frames.items():
    print(f"{hospital}: {len(rows)} people, {rows['died'].sum()} deaths, followed for {rows['days'].median():.0f} days")

# %% Learning, with the order of time as knowledge: nothing here causes age, and surgery follows the staging. The
# outcome needs no place in the order, because it is a sink.
order = "age<smoking<stage<surgery"
found = learn(frames, about=about, tiers=order, secure=True, bootstrap=20)
(outcome,) = found.result.survival
node = outcome.node
print(outcome.basis)
for k, term in enumerate(node.terms):
    one = node.hazard_ratio(k)
    print(f"{term.name}: hazard ratio {one.value:.2f}, {one.interval[0]:.2f} to {one.interval[1]:.2f}")

# %% Crude and adjusted: people with surgery are younger and in earlier stages, so the crude ratio flatters it. The
# graph names what to adjust for.
crude_rates = {one: sum(f["died"][f["surgery"] == one].sum() for f in frames.values()) for one in ("no", "yes")}
at_risk = {one: sum(f["days"][f["surgery"] == one].sum() for f in frames.values()) for one in ("no", "yes")}
crude = (crude_rates["yes"] / at_risk["yes"]) / (crude_rates["no"] / at_risk["no"])
surgery = found.effect("surgery", "death", direct=True)
adjusted = surgery.effects[0].candidates[0].estimate.hazard_ratio
print(f"crude rate ratio {crude:.2f}, adjusted hazard ratio {adjusted.value:.2f}")
print(surgery)

# %% The probability of death within a year and within three, if all had surgery and if none had. A hazard ratio is not
# a ratio of risks: these are the numbers for a person.
risks = {}
for years in (1, 3):
    for one in ("no", "yes"):
        answer = found.query(f"P(death within {365 * years} | do(surgery={one}))")
        risks[years, one] = answer.answer.probabilities[()]
        low, high = answer.interval
        print(f"surgery {one}, {years} years: {risks[years, one]:.3f}, 95 % interval {low:.3f} to {high:.3f}")

# %% Is the ratio the same early and late? Ending everybody's follow-up after a year shows the early ratio; if it
# differed much from that of the whole time, one number would mislead.
early = {
    hospital: rows.assign(days=rows["days"].clip(upper=365), died=rows["died"].where(rows["days"] <= 365, 0))
    for hospital, rows in frames.items()
}
first = learn(early, about=about, tiers=order, secure=True, bootstrap=0, required="surgery->death")
year_one = first.effect("surgery", "death", direct=True).effects[0].candidates[0].estimate.hazard_ratio
print(f"first year: {year_one.value:.2f}, {year_one.interval[0]:.2f} to {year_one.interval[1]:.2f}")

# %% What the numbers rest on. Whoever decides on surgery sees more than age and stage; frailty that is in no column
# would make surgery look better than it is, and no model here can tell. Censoring must not depend on who is about to
# die: the end of the registry does not, but people who move away may. The parents were selected from the same rows, so
# intervals are somewhat too narrow. Times before the diagnosis are not in the data: a person must live to be diagnosed.
print(*surgery.rests_on[1:], sep="\n")
found.plot()
