"""The published settings: every preset is what the table says, and every spec of a paper runs that paper's settings."""

import json
from pathlib import Path

import pytest

from fedbnsl.algorithms.published import PUBLISHED
from fedbnsl.algorithms.registry import ALGORITHMS
from fedbnsl.flows.benchmark.spec import Spec, read_spec

SPECS = sorted((Path(__file__).parents[1] / "benchmarks" / "papers").glob("*.yaml"))
CLAIM = "paper's settings"
"""what the name of a learner says that runs published settings"""
WORDS = {"lags", "delta", "preset"}
"""settings that state the problem or the privacy, not the method"""


def covered(spec: Spec) -> dict[str, set[str]]:
    """Learner -> the presets that state its settings in what `spec` repeats."""
    found = {
        learner: {preset for preset, one in presets.items() if spec.repeats in {f"{one.paper}: {i}" for i in one.items}}
        for learner, presets in PUBLISHED.items()
    }
    return {learner: presets for learner, presets in found.items() if presets}


def complaints(spec: Spec) -> list[str]:
    """What is wrong with the learners of `spec` that claim a paper's settings, and which are missing."""
    expected, wrong = covered(spec), []
    for cell in spec.cells():
        learner, preset = cell.learner, str(cell.learner.params.get("preset", ""))
        if CLAIM not in learner.name:
            continue
        one = PUBLISHED.get(learner.algorithm, {}).get(preset)
        if one is None:
            wrong.append(f"{learner.name}: {preset} of {learner.algorithm} is not published")
            continue
        if learner.algorithm in expected and preset not in expected[learner.algorithm]:
            wrong.append(f"{learner.name}: {preset} is not of {spec.repeats}")
        if changed := set(learner.params) - WORDS - set(one.free):
            wrong.append(f"{learner.name}: has its own {changed}")
        silos = cell.source.options["silos"]
        if one.silos and silos != one.silos and preset in expected.get(learner.algorithm, ()):
            wrong.append(f"{learner.name}: {silos} silos instead of {one.silos}")
    claiming = {one.algorithm for one in spec.learners if CLAIM in one.name}
    return wrong + [f"{learner} does not run {CLAIM}" for learner in expected if learner not in claiming]


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_a_spec_of_a_paper_runs_its_settings(path: Path) -> None:
    spec = read_spec(path)
    papers = {one.paper for presets in PUBLISHED.values() for one in presets.values()}
    assert spec.repeats.split(": ")[0] in papers
    assert complaints(spec) == []


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("preset: paper, name", "preset: fed-bnsl, name", "fed-bnsl is not of Ng & Zhang 2022: Figure 1"),
        ("preset: paper, name", "preset: paper, l1: 0.1, name", "has its own {'l1'}"),
        ("preset: paper, name", "l1: 0.01, name", "is not published"),
        ("notears-admm, paper's settings", "notears-admm of the paper", "notears-admm does not run paper's settings"),
    ],
)
def test_a_spec_with_other_settings_is_refused(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    text = next(path for path in SPECS if path.stem == "admm-figure-1").read_text()
    assert old in text
    (tmp_path / "other.yaml").write_text(text.replace(old, new))
    assert any(one.endswith(complaint) for one in complaints(read_spec(tmp_path / "other.yaml")))


def test_a_spec_with_another_number_of_silos_is_refused(tmp_path: Path) -> None:
    """The spec is of the last of the items of its preset, and ρ₁ is divided by the number of silos."""
    text = next(path for path in SPECS if path.stem == "structure-dp-figure-5").read_text()
    (tmp_path / "other.yaml").write_text(text.replace("silos: 8", "silos: 4"))
    assert "fed-sparse, paper's settings: 4 silos instead of 8" in complaints(read_spec(tmp_path / "other.yaml"))


def test_a_preset_has_the_published_values() -> None:
    for learner, presets in PUBLISHED.items():
        for preset, one in presets.items():
            settings = ALGORITHMS[learner].presets[preset]
            assert {name: getattr(settings, name) for name in one.values} == {
                name: value for name, (value, _) in one.values.items()
            }


def test_the_weights_against_a_sum_of_losses_are_those_of_the_papers() -> None:
    """ρ₁ of Fassy El Fehri et al., B.3.2 and B.3.4; ρ₁ and λ_W of Chen, Ma & Yue 2025, §4.1 and Tables 9 to 11."""
    totals = {
        (learner, preset): tuple(round(one.values[name][0] * one.silos, 9) for name in names if name in one.values)
        for learner, names in (("fed-sparse", ("rho1",)), ("notears-admm", ("rho1",)), ("fdbnl", ("rho1", "l1")))
        for preset, one in PUBLISHED[learner].items()
        if one.silos
    }
    assert {totals["fed-sparse", preset] for preset in ("paper", "paper-heterogeneous", "paper-few-rows")} == {(1000,)}
    assert totals["fed-sparse", "paper-sachs"] == (10_000,)
    assert totals["notears-admm", "fed-bnsl"] == (1000,)
    assert totals["notears-admm", "fed-bnsl-heterogeneous"] == (100,)
    assert totals["notears-admm", "fed-bnsl-sachs"] == (100_000,)
    assert totals["fdbnl", "paper"] == (1, 0.5)
    by_silos = zip(
        (2, 4, 8, 16, 32, 64), (0.3, 0.5, 0.45, 0.5, 0.25, 0.3), (0.4, 0.5, 0.5, 0.5, 0.5, 0.25), strict=True
    )
    for silos, ten, twenty in by_silos:
        assert totals["fdbnl", f"paper-d10-k{silos}"] == (1, ten)
        assert totals["fdbnl", f"paper-d20-k{silos}"] == (1, twenty)


RECORDED = [path for path in SPECS if (path.parents[1] / "results" / f"papers-{path.stem}.json").exists()]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_recorded_figures_are_of_the_spec_as_it_is(path: Path) -> None:
    content = json.loads((path.parents[1] / "results" / f"papers-{path.stem}.json").read_text("utf-8"))
    spec = read_spec(path)
    cells = {(one.source.name, one.learner.name, one.seed) for one in spec.cells()}
    assert {(run["data"], run["algorithm"], run["seed"]) for run in content["runs"]} == cells
