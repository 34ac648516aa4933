"""Nonlinear learners: a multilayer perceptron for every variable (Zheng et al. 2020; Ng & Zhang 2022, §5.2)."""
