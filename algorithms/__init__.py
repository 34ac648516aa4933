"""Pure computation: the federated algorithms, independent of Prefect, Dask, MLflow, files and sockets.

Docstrings cite five papers by their authors: Fassy El Fehri, Bellet and Bastien (Fed-Sparse-BNSL and its private form),
Ng and Zhang 2022 (NOTEARS-ADMM), Chen, Ma and Yue (FDBNL and PFDBNL, for time series), Wang, Ma and Wang 2023 (FedC2SL:
FedPC and FedFCI), Torrijos et al. 2024 (FedGES).
"""
