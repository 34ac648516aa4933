"""The schema that silos describe: what must agree, and the silo and column that an error names."""

from dataclasses import replace

import pandas as pd
import pytest

from fedbnsl.algorithms.core.protocol import SiloLost
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.about import NO_DECLARATION, Declared, Reading, declarations
from fedbnsl.tasks.silo.guard import Guard
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tasks.transport.described_schema import schema_from_descriptions
from fedbnsl.tasks.transport.in_process import InProcessTransport, in_process_roster


def described(folder, declared=None, **frames):
    """Return the common schema of services whose files have these rows."""
    services = {}
    for silo, frame in frames.items():
        frame.to_csv(folder / f"{silo}.csv", index=False)
        services[silo] = SiloService(silo, folder / f"{silo}.csv")
    return schema_from_descriptions(
        in_process_roster(InProcessTransport(services), tuple(services)), declared or Declared()
    ).schema


def series(*names, step=1, rows=20, gap=0):
    time = [step * k + gap * (k >= 12) for k in range(rows)]
    return pd.DataFrame(
        {"time": time} | {name: [(k * (j + 3)) % 7 + 0.5 for k in range(rows)] for j, name in enumerate(names)}
    )


def test_series_of_the_same_columns_in_any_order_agree(tmp_path):
    schema = described(tmp_path, a=series("x", "y"), b=series("y", "x", rows=15, gap=4), c=series("x", "y", rows=9))
    assert schema.kind == "time-series"
    assert schema.variables == ("x", "y")
    assert schema.rows == {"a": 20, "b": 15, "c": 9}
    assert schema.stretches == {"a": (20,), "b": (12, 3), "c": (9,)}


@pytest.mark.parametrize(
    ("other", "column"), [(("x",), "y"), (("x", "y", "z"), "z"), (("x", "w"), "w")], ids=["lacking", "more", "another"]
)
def test_series_of_other_columns_are_refused(tmp_path, other, column):
    with pytest.raises(BadInput, match=f"silos a and c disagree: only one of them has column {column}"):
        described(tmp_path, a=series("x", "y"), b=series("x", "y"), c=series(*other))


def test_series_of_another_step_and_tables_without_time_are_refused(tmp_path):
    with pytest.raises(BadInput, match=r"silo b: its times are 2 apart, those of silo a 1"):
        described(tmp_path, a=series("x", "y"), b=series("x", "y", step=2))
    with pytest.raises(BadInput, match="silos a and b disagree: only the first has a column 'time'"):
        described(tmp_path, a=series("x", "y"), b=series("x", "y").drop(columns="time"))


def test_tables_of_other_columns_are_refused(tmp_path):
    frame = series("x", "y", "z").drop(columns="time")
    with pytest.raises(BadInput, match=r"\bz\b"):
        described(tmp_path, a=frame, b=frame.drop(columns="z"))


def owners(folder, **targets):
    """A transport to silos on their owners' machines, who declare these targets."""
    services = {}
    for number, silo in enumerate("abc"):
        frame = pd.DataFrame(
            {name: [(k * (j + 3 + number)) % 7 + 0.25 * k for k in range(20)] for j, name in enumerate("xy")}
        )
        frame.to_csv(folder / f"{silo}.csv", index=False)
        own = Declared(targets={silo: targets[silo]}) if silo in targets else None
        services[silo] = SiloService(silo, folder / f"{silo}.csv", guard=Guard(declared=own, remote=True))
    return InProcessTransport(services)


def test_owners_declare_the_targets_of_their_silos(tmp_path):
    transport = owners(tmp_path, a=("x",))
    found = schema_from_descriptions(in_process_roster(transport, tuple("abc")), Declared(targets={"b": ("y",)}))
    assert found.schema.targets == {"a": (("x",),), "b": (("y",),)}
    ignored = Declared(reading=Reading(targets=()))
    assert not schema_from_descriptions(in_process_roster(transport, tuple("abc")), ignored).schema.has_targets
    with pytest.raises(
        BadInput, match="silo a: its owner declares the targets x, and the coordinator declares y: agree"
    ):
        schema_from_descriptions(in_process_roster(transport, tuple("abc")), Declared(targets={"a": ("y",)}))
    with pytest.raises(BadInput, match="there is no silo 'd'; available: a, b, c"):
        schema_from_descriptions(in_process_roster(transport, tuple("abc")), Declared(targets={"d": ("y",)}))
    absent = schema_from_descriptions(
        in_process_roster(transport, tuple("abc")), Declared(targets={"d": ("y",)}), tuple("abcd")
    )
    assert absent.schema.targets == {"a": (("x",),)}


def drugs(folder, requested, **abouts):
    """The descriptions of silos on their owners' machines; each has rows of two drugs and its own `about.json`."""
    services = {}
    for silo, about in abouts.items():
        rows = [f"{k * 7 % 13}.25,{k * k % 7}.5,{'ly' if k % 3 else 'pma'}" for k in range(60)]
        (folder / f"{silo}.csv").write_text("\n".join(["x,y,drug", *rows]))
        guard = Guard(declared=declarations(about), remote=True)
        services[silo] = SiloService(silo, folder / f"{silo}.csv", guard=guard)
    return schema_from_descriptions(in_process_roster(InProcessTransport(services), tuple(services)), requested).schema


def test_owners_declare_the_targets_of_their_conditions(tmp_path):
    own = {"condition": "drug", "targets": {"ly": ["x"]}}
    request = Declared(reading=Reading(condition="drug"))
    found = drugs(tmp_path, request, a=own, b=own)
    assert found.targets == dict.fromkeys("ab", (("x",), ()))
    assert found.stretches == dict.fromkeys("ab", (40, 20))
    assert not drugs(tmp_path, Declared(reading=Reading(targets=())), a={"condition": "drug"}, b=own).has_targets
    other = own | {"targets": {"ly": ["y"]}}
    with pytest.raises(
        BadInput, match="silo b: its owner declares the targets y of condition ly, and the owner of a declares x"
    ):
        drugs(tmp_path, request, a=own, b=other)
    coordinator = replace(request, targets={"ly": ("y",)})
    with pytest.raises(BadInput, match="declares the targets x of condition ly, and the coordinator declares y"):
        drugs(tmp_path, coordinator, a=own)


def test_a_coordinator_cannot_choose_the_column_of_conditions(tmp_path):
    own = {"condition": "drug", "targets": {"ly": ["x"]}}
    with pytest.raises(
        BadInput, match=r"declares no column of conditions, but the coordinator names 'drug' \(--condition\)"
    ):
        drugs(tmp_path, Declared(reading=Reading(condition="drug")), a={})
    with pytest.raises(BadInput, match="declares the column of conditions 'drug', but the coordinator names none"):
        drugs(tmp_path, Declared(), a=own)


def test_pooled_rows_are_described_under_the_name_of_the_silo_that_has_them(tmp_path):
    """Its rows and its empty cells: a folder of two files, with one and two empty cells."""
    folder = tmp_path / "rows"
    folder.mkdir()
    for name, first in (("north", 3), ("south", 8)):
        frame = pd.DataFrame(
            {"x": [k * k % 11 + 0.5 for k in range(30 + first)], "y": [k % 7 + 0.25 for k in range(30 + first)]}
        )
        frame.loc[: first % 2, "y"] = None
        frame.to_csv(folder / f"{name}.csv", index=False)
    schema = schema_from_descriptions(
        in_process_roster(InProcessTransport({"whole": SiloService("whole", folder)}), ("whole",)), Declared()
    ).schema
    assert schema.rows == {"whole": 71}
    assert schema.empty == {"whole": (0, 3)}
    assert schema.gaps


class Vanishing(InProcessTransport):
    """Silos of which the one called lab is lost."""

    def submit(self, silo, call):
        if silo == "lab":
            raise SiloLost((silo,), "gone")
        return super().submit(silo, call)


def test_a_silo_that_does_not_describe_its_rows_is_lost(tmp_path):
    (tmp_path / "ward.csv").write_text("x,y\n" + "1,2\n" * 9)
    silos = Vanishing({"ward": SiloService("ward", tmp_path / "ward.csv")})
    with pytest.raises(SiloLost, match="lab: gone"):
        schema_from_descriptions(in_process_roster(silos, ("lab", "ward")), NO_DECLARATION)
