"""Where Prefect's database and the token of this user are: PREFECT_HOME, else FEDBNSL_HOME, else `~/.prefect`."""

import os
import subprocess
import sys

import pytest

from fedbnsl.flows.servers import environment
from fedbnsl.flows.servers.environment import prepare_environment
from fedbnsl.flows.servers.processes import users_server
from fedbnsl.tracking.own_servers import TOKEN_FILE, own_token, servers_folder

ASKED = (
    "from fedbnsl.flows.servers.environment import prepare_environment; prepare_environment();"
    "from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL as url, PREFECT_API_URL as api;"
    "print(url.value(), api.value())"
)


def prefect_s_own_view(home, **given):
    """What Prefect itself says about its database and its server, in a process with this environment."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PREFECT_", "FEDBNSL_"))}
    done = subprocess.run(
        [sys.executable, "-c", ASKED],
        env=kept | {"HOME": str(home)} | given,
        cwd=home,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_the_database_is_in_the_folder_of_all_databases(tmp_path):
    profile = tmp_path / ".prefect" / "profiles.toml"
    profile.parent.mkdir()
    profile.write_text('active = "x"\n[profiles.x]\nPREFECT_API_URL = "http://server.example/api"\n')
    home = tmp_path / "all"
    where = "sqlite+aiosqlite:///{}/prefect.db"
    # The user's profiles stay where they are.
    address = "http://server.example/api"
    assert prefect_s_own_view(tmp_path, FEDBNSL_HOME=str(home)) == [where.format(home / "prefect"), address]
    assert prefect_s_own_view(tmp_path) == [where.format(tmp_path / ".prefect"), address]
    own = prefect_s_own_view(tmp_path, FEDBNSL_HOME=str(home), PREFECT_HOME=str(tmp_path / "own"))
    assert own == [where.format(tmp_path / "own"), "None"]


def test_the_token_is_beside_the_database(tmp_path, monkeypatch):
    monkeypatch.delenv("PREFECT_HOME")
    monkeypatch.setenv("FEDBNSL_HOME", str(tmp_path / "all"))
    assert servers_folder() == tmp_path / "all" / "prefect"
    assert own_token() == (tmp_path / "all" / "prefect" / TOKEN_FILE).read_text()
    monkeypatch.delenv("FEDBNSL_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert servers_folder() == tmp_path / ".prefect"


@pytest.mark.parametrize("home", ["all", None])
def test_a_server_in_the_user_s_profile_is_found(home, tmp_path, monkeypatch):
    """This is decided before Prefect is imported."""
    profiles = tmp_path / ".prefect" / "profiles.toml"
    profiles.parent.mkdir()
    profiles.write_text('active = "x"\n[profiles.x]\nPREFECT_API_URL = "http://server.example/api"\n')
    for name in ("PREFECT_HOME", "PREFECT_API_URL", "PREFECT_PROFILES_PATH"):
        monkeypatch.setenv(name, "")  # undone afterwards
        monkeypatch.delenv(name)
    monkeypatch.delitem(sys.modules, "prefect", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(environment, "PROFILES", profiles)
    if home:
        monkeypatch.setenv("FEDBNSL_HOME", str(tmp_path / home))
    prepare_environment()
    assert users_server() == "http://server.example/api"
    assert ("PREFECT_HOME" in os.environ) is bool(home)
