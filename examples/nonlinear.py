"""Effects that bend: a small neural network for every variable, whose weights the silos agree on."""

# %% Data: each variable is a random smooth function of its parents, with noise.
from fedbnsl import learn, prepare
from fedbnsl.settings import NotearsMlpAdmm

data = prepare("nonlinear", variables=4, silos=2, rows=300, seed=1)

# %% A linear learner sees only what is straight on average, and says that it is out of its depth.
straight = learn(data)
print(straight)
for finding in straight.result.diagnosed.findings:
    print(finding.said)

# %% Consensus ADMM on the networks. What is sent each round are the weights of these, never a row.
bent = learn(data, NotearsMlpAdmm(rounds=6))
print(bent)
print(bent.rounds[["round", "h", "edges"]])

# %% The weight of such an edge is a strength, without a sign: how much the effect moves when the cause does.
print(bent.weights.round(2))
bent.plot()
