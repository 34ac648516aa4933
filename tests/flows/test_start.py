"""What a run asks of Prefect's client, by whose server it is."""

from prefect.settings import PREFECT_API_URL, PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings
from prefect.settings.context import get_current_settings

from fedbnsl.flows.servers import processes
from fedbnsl.flows.start import client_settings

URL = "http://127.0.0.1:1/api"


def test_heartbeats_go_to_the_users_server_alone(monkeypatch):
    found = {}
    for server in (URL, None):
        monkeypatch.setattr(processes, "users_server", lambda known=server: known)
        with (
            temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: 60}),
            temporary_settings(client_settings(URL)),
        ):
            assert PREFECT_API_URL.value() == URL
            found[server] = get_current_settings().flows.heartbeat_frequency
    assert found == {URL: 60, None: None}
