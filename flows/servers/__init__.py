"""The servers of Prefect and MLflow, and their settings."""
