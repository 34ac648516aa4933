"""`fedbnsl silo start`: the settings of the owner's file are those of the worker that serves."""

import pytest

from fedbnsl.flows.cli.federation import init_federation
from fedbnsl.flows.cli.silo import serve_silo
from fedbnsl.tasks.silo import source
from fedbnsl.tasks.transport import silo_worker


@pytest.mark.parametrize("workers", [1, 3])
def test_a_silo_serves_by_the_settings_of_its_file(workers, tmp_path, monkeypatch):
    """Its name, rows, readers, addresses and certificate."""
    folder, served, readers = tmp_path / "study", [], []
    init_federation(folder, ["a", "b"], "127.0.0.1:8786")
    place = folder / "a"
    (place / "rows.csv").write_text("x,y\n" + "".join(f"{k % 7 + 0.5},{k * k % 11}\n" for k in range(60)))
    config = place / "silo.toml"
    said = config.read_text().splitlines()
    listen = [line for line in said if not line.startswith(("workers", "listen"))]
    config.write_text("\n".join([f"workers = {workers}", 'listen = "127.0.0.1:0"', *listen]))

    async def run(address, service, identity, listen, log):
        served.append((address, service.name, service.describe().rows, identity.holder(), listen))

    def described(silo, path, declared, mapper, whole=source.describe_rows):
        readers.append((getattr(mapper, "__self__", None), path))
        return whole(silo, path, declared, mapper)

    monkeypatch.setattr(silo_worker, "run_silo_worker", run)
    monkeypatch.setattr(source, "describe_rows", described)
    monkeypatch.setattr("fedbnsl.flows.terminal.daemon.run_until_signal", lambda serving: serving().send(None))
    with pytest.raises(StopIteration):
        serve_silo(config, None, None)
    assert served == [("tls://127.0.0.1:8786", "a", 60, "a", ("127.0.0.1", 0))]
    ((own, path),) = readers
    assert (own.count, path) == (workers, place / "rows.csv")
