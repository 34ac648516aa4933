import pytest


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """The folder of one MLflow database for all tests, because creating one takes seconds."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="session")
def uri(store):
    """Its tracking URI."""
    return f"sqlite:///{store / 'mlflow.db'}"
