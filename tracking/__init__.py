"""MLflow: runs, rounds, structures, pictures, models; checkpoints and reports.

Importing this package sets how MLflow behaves, before anything in it can import MLflow: no telemetry, nothing printed,
and seconds of retries instead of minutes when a tracking server does not answer. What the environment says already
stays. MLflow, pgmpy and matplotlib themselves are imported only by the functions that need them.
"""

import os

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("DO_NOT_TRACK", "true")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "1")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
