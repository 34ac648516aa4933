import subprocess

from fedbnsl.tracking.mlflow.store import HERE, checkout_commit, source_tags


def git(folder, *words):
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    done = subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_the_commit_is_that_of_our_own_checkout_only(tmp_path):
    assert checkout_commit(tmp_path) is None
    git(tmp_path, "init")
    git(tmp_path, "commit", "--allow-empty", "-m", "first")
    ours, installed = tmp_path / "tracking" / "mlflow", tmp_path / ".venv" / "fedbnsl" / "tracking" / "mlflow"
    for folder in (ours, installed):
        folder.mkdir(parents=True)
    assert checkout_commit(ours) == git(tmp_path, "rev-parse", "HEAD")
    assert checkout_commit(installed) is None


def test_the_source_of_a_run_is_named():
    tags = source_tags()
    assert (tags["mlflow.source.name"], tags["mlflow.source.type"]) == ("fedbnsl", "LOCAL")
    assert tags.get("mlflow.source.git.commit") == checkout_commit(HERE)
