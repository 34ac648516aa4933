import pytest


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """Return the folder of one MLflow database for all tests: to make one takes seconds."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="session")
def uri(store):
    """Return its tracking URI."""
    return f"sqlite:///{store / 'mlflow.db'}"
