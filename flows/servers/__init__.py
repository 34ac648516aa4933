"""The servers a run needs or a user wants: Prefect, MLflow, schedules."""
