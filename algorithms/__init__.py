"""Pure computation: the federated algorithms, independent of Prefect, Dask, MLflow, files and sockets.

Docstrings cite these papers on federated learning by their authors:

- Fassy El Fehri, Bellet and Bastien: Fed-Sparse-BNSL and its private form;
- Ng and Zhang 2022: NOTEARS-ADMM;
- Chen, Ma and Yue: FDBNL and PFDBNL, for time series;
- Wang, Ma and Wang 2023: FedPC and FedFCI (together called FedC2SL);
- Torrijos et al. 2024: FedGES.
"""
