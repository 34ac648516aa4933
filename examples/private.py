"""A privacy budget ε: what anyone who sees the result can learn of one record is bounded, and the bound has a price."""

# %% Data: 4 silos of 1000 rows.
from fedbnsl import learn, prepare

data = prepare("homogeneous", variables=8, silos=4, rows=1000, seed=5)
exact = learn(data)
print(exact)

# %% With ε = 2. Every silo adds its share of noise behind a mask, so that only the noisy sum is ever seen.
# The noise comes from the operating system: it differs every time, and no seed brings it back.
private = learn(data, epsilon=2.0)
print(private)

# %% What it cost, by the ledgers of the silos, and what the promise does not cover.
spent = private.result.privacy
print(f"ε = {spent.spent:.3f} at δ = {spent.delta:.2g}; it protects {spent.protects}")
for what, times, rho in spent.releases:
    print(f"released: {what}, {times} time(s), ρ = {rho:.4g}")

# %% A smaller budget needs more noise: edges may be lost, or made up. One that finds nothing is refused, unspent.
for epsilon in (0.5, 2.0, 8.0):
    found = learn(data, epsilon=epsilon)
    print(f"ε = {epsilon}: SHD {found.metrics['shd']}, {found.metrics['edges']} edges")

# %% A budget over several runs: learning on would exceed 1, so it is refused before anything is asked of a silo.
# On a folder the ledgers stay beside the rows, and count every run on them.
try:
    learn(data, epsilon=2.0, budget=1.0)
except ValueError as error:
    print(error)
