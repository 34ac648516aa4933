"""The two engines: `inline`, in this process, and `prefect`, with Prefect, Dask and MLflow."""
