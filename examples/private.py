"""A privacy budget ε bounds what a reader of the result can learn about one record, at the cost of accuracy."""

# %% Data: 4 silos of 1000 rows.
from fedbnsl import learn, prepare

data = prepare("homogeneous", variables=8, silos=4, rows=1000, seed=5)
exact = learn(data)
print(exact)

# %% With ε = 2. Every silo adds its share of noise behind a mask, so that the coordinator sees only the noisy sum.
# The noise comes from the operating system: it differs in every run, and has no seed.
private = learn(data, epsilon=2.0)
print(private)

# %% The privacy loss from the ledgers of the silos, and the protected unit.
spent = private.result.privacy
print(f"ε = {spent.spent:.3f} at δ = {spent.delta:.2g}; it protects {spent.protects}")
for what, times, rho in spent.releases:
    print(f"released: {what}, {times} time(s), ρ = {rho:.4g}")

# %% A smaller budget needs more noise: edges may be missing or false. A budget too small for any edge is refused.
for epsilon in (0.5, 2.0, 8.0):
    found = learn(data, epsilon=epsilon)
    print(f"ε = {epsilon}: SHD {found.metrics['shd']}, {found.metrics['edges']} edges")

# %% A budget over several runs: this run would exceed 1, so it is refused before it sends any request to a silo.
# For a folder, the ledgers are beside the rows and count every run on them.
try:
    learn(data, epsilon=2.0, budget=1.0)
except ValueError as error:
    print(error)
