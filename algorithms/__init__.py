"""Pure computation: the federated algorithms. Knows nothing of Prefect, Dask, MLflow, files or sockets.

Docstrings cite the five papers by number: 000 Fassy El Fehri, Bellet, Bastien (Fed-Sparse-BNSL), 001 Ng and Zhang 2022
(NOTEARS-ADMM), 002 FDBNL and PFDBNL for time series, 003 FedC2SL, 004 FedGES.
"""
