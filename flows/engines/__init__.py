"""The two engines: in this process, or with Prefect, Dask and MLflow."""
