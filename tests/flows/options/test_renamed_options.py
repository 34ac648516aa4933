"""Renamed options keep their old names for one version, with a warning."""

import json

import pytest

import fedbnsl
from fedbnsl.algorithms.diagnosis.findings import Finding
from fedbnsl.algorithms.errors import BadInput, RenamedWarning
from fedbnsl.flows.cli.main import main

SMALL = {"variables": 4, "silos": 3, "rows": 20}


def test_an_old_keyword_sets_the_renamed_option_and_warns():
    with pytest.warns(RenamedWarning, match="option targeted is deprecated: it is now targeted_silos"):
        old = fedbnsl.prepare("interventions", **SMALL, targeted=1)
    assert old.schema.targets == fedbnsl.prepare("interventions", **SMALL, targeted_silos=1).schema.targets
    assert len(old.schema.targets) == 1


def test_the_old_and_the_new_name_together_are_refused():
    with pytest.raises(BadInput, match="give only targeted_silos"):
        fedbnsl.prepare("interventions", **SMALL, targeted=1, targeted_silos=2)


@pytest.mark.filterwarnings("ignore::fedbnsl.algorithms.errors.RenamedWarning")
def test_the_command_line_takes_an_old_name_and_does_not_show_it(capsys, tmp_path):
    words = [part for name, value in SMALL.items() for part in (f"--{name}", str(value))]
    with pytest.raises(SystemExit) as ended:
        main(["prepare", "interventions", str(tmp_path / "old"), *words, "--targeted", "1"])
    assert ended.value.code == 0
    assert len(json.loads((tmp_path / "old" / "about.json").read_text())["targets"]) == 1
    with pytest.raises(SystemExit):
        main(["prepare", "interventions", "--help"])
    assert "--targeted " not in capsys.readouterr().out


def test_a_finding_keeps_the_old_name_of_its_message():
    with pytest.warns(RenamedWarning, match="it is now Finding.message"):
        assert Finding("units", "Units differ.", "").said == "Units differ."
