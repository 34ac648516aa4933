"""The options of users, declared once: the models behind the command line, the Python API and Prefect's forms."""
