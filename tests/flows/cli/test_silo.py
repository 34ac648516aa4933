"""`fedbnsl silo start`: the settings of the owner's file are those of the worker that serves."""

from dataclasses import fields

import pytest

from fedbnsl.data.folder.profile import ColumnProfile
from fedbnsl.flows.cli.federation import init_federation
from fedbnsl.flows.cli.silo import FACTS, disclosure_lines, serve_silo
from fedbnsl.tasks.silo import source
from fedbnsl.tasks.transport import silo_worker
from fedbnsl.tasks.transport.configuration import read_silo_file


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


def test_every_fact_about_a_column_that_is_sent_is_printed():
    """A new field of the description must have words, or a reason why it has none."""
    assert {field.name for field in fields(ColumnProfile)} == {*FACTS, "labels", "odd"}


def test_an_owner_sees_what_the_coordinator_learns_of_each_column(tmp_path):
    folder = tmp_path / "study"
    init_federation(folder, ["a", "b"], "127.0.0.1:8786")
    rows = "".join(
        f"{'' if k < 7 else 100 + k},{'yes' if k % 3 else 'no'},{k % 9 + 1},{(k % 9 + 1) ** 2}\n" for k in range(60)
    )
    (folder / "a" / "rows.csv").write_text(f"dose,ill,g,t\n{rows}")
    first, *others = disclosure_lines(read_silo_file(folder / "a" / "silo.toml", None, None))
    assert first == "before round 1 the coordinator learns: 60 rows, columns dose, ill, g, t"
    (dose,) = [line for line in others if line.startswith("  dose: ")]
    assert dose.startswith("  dose: empty cells: 7; numbers: 53; all numbers are integers; distinct values: ")
    assert "median magnitude 10^2.1" in dose
    assert "  labels of ill: no, yes" in others
    assert "  t follows from g" in others
    (ill,) = [line for line in others if line.startswith("  ill: ")]
    assert "words: 60" in ill
    assert "numbers" not in ill
