"""Nothing is learned from a silo whose rows differ from those it announced."""

from contextlib import closing
from dataclasses import replace

import pandas as pd
import pytest

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.about import Declared
from fedbnsl.tasks.silo.messages import SiloFailed
from fedbnsl.tasks.silo.service import SiloService

ROWS = {"fewer": 99, "more": 101}


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("kind", ["numbers", "series", "labels"])
def test_rows_other_in_number_than_announced_are_refused(host, tmp_path, kind, rows):
    folder = tmp_path / kind
    folder.mkdir()
    frame = pd.DataFrame({"x": [k % 7 + 0.5 for k in range(101)], "y": [k % 11 + 0.25 for k in range(101)]})
    if kind == "series":
        frame.insert(0, "time", range(101))
    if kind == "labels":
        frame = frame.map(lambda value: f"level {int(value) % 3}")
    for silo in ("a", "b"):
        frame[:100].to_csv(folder / f"{silo}.csv", index=False)
    owners = host(folder)
    terms = owners.terms({"numbers": "fed-sparse", "series": "fdbnl", "labels": "fed-pc"}[kind])
    algorithm = terms.algorithm()
    broadcast = wire.encode(algorithm.broadcast(algorithm.open_server(owners.data.schema)))
    assert owners.services["b"].solve(terms, 1, broadcast)
    frame[:rows].to_csv(folder / "a.csv", index=False)
    with pytest.raises(BadInput, match=r"a\.csv"):
        owners.services["a"].solve(terms, 1, broadcast)
    frame[:100].to_csv(folder / "a.csv", index=False)
    with closing(SiloService("a", folder / "a.csv")) as restarted:
        assert restarted.solve(replace(terms, run_id="another"), 1, broadcast)


def test_rows_are_read_anew_for_other_markers_of_missing_values(host, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    frame = pd.DataFrame({"x": [k % 7 + 0.5 for k in range(100)], "y": [k % 11 + 0.25 for k in range(100)]})
    frame.loc[::9, "x"] = -9.5
    for silo in ("a", "b"):
        frame.to_csv(folder / f"{silo}.csv", index=False)
    owners = host(folder)
    service, terms = owners.services["a"], owners.terms("fed-sparse")
    algorithm = terms.algorithm()
    broadcast = wire.encode(algorithm.broadcast(algorithm.open_server(owners.data.schema)))
    plain = service.solve(terms, 1, broadcast)
    assert service.solve(replace(terms, run_id="same terms"), 1, broadcast) == plain
    marked = replace(terms, run_id="marked", declared=Declared(marks={"x": ("-9.5",)}))
    assert _outcome(service, marked, broadcast) != plain
    with closing(SiloService("a", folder / "a.csv")) as fresh:
        other = replace(marked, run_id="marked elsewhere")
        assert _outcome(service, other, broadcast) == _outcome(fresh, replace(other, run_id="fresh"), broadcast)


def _outcome(service, terms, broadcast):
    """The reply of `service`, or the kind of its error."""
    try:
        return service.solve(terms, 1, broadcast)
    except (BadInput, SiloFailed) as error:
        return type(error)
