"""Results of runs, their reports, pictures, files and checkpoints, and their records in MLflow.

Importing this package sets environment variables of MLflow, before a module of the package imports MLflow. They turn
off telemetry and output, and limit retries to seconds instead of minutes if a tracking server does not answer.
Variables that are already set keep their values. MLflow, pgmpy and matplotlib are imported by functions that need them.
"""

import os

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("DO_NOT_TRACK", "true")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "1")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
