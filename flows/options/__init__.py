"""What a user can choose, declared once: the models behind the command line, the Python API and Prefect's forms."""
