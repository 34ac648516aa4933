"""Nonlinear effects: an additive model, and consensus ADMM with a small neural network for every variable."""

# %% Data: each variable is a random smooth function of its parents, with noise.
from fedbnsl import learn, prepare
from fedbnsl.settings import NotearsMlpAdmm

data = prepare("nonlinear", variables=4, silos=2, rows=300, seed=1)

# %% A linear learner finds only the linear part of an effect; its diagnoses report the rest.
linear = learn(data, "secure-linear")
print(linear)
for finding in linear.result.diagnosed.findings:
    print(finding.message)

# %% The default reads this finding, and continues with an additive model from one further masked sum.
additive = learn(data)
print(additive)
for line in additive.result.basis:
    print(line)

# %% Consensus ADMM on the networks. Silos send the weights of the networks in each round, and no rows.
nonlinear = learn(data, NotearsMlpAdmm(rounds=6))
print(nonlinear)
print(nonlinear.rounds[["round", "h", "edges"]])

# %% The weight of such an edge is a strength without a sign: how strongly the effect depends on the cause.
print(nonlinear.weights.round(2))
nonlinear.plot()
