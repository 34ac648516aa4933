"""Pure computation: the federated algorithms. Knows nothing of Prefect, Dask, MLflow, files or sockets."""
