from dataclasses import fields

import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.admm.fed_sparse import FedSparse
from fedbnsl.algorithms.errors import BadInput


def test_text_becomes_the_type_of_the_parameter() -> None:
    settings = registry.specify(
        "fed-sparse", {"rho1": "2.5", "rounds": "30", "center": "yes", "fix_order": False}
    ).settings
    assert settings == FedSparse(rho1=2.5, rounds=30, center=True, fix_order=False)
    assert isinstance(settings.rounds, int)


def test_a_preset_is_the_start_and_parameters_come_on_top() -> None:
    paper = registry.specify("fed-sparse", {"preset": "paper", "rounds": 50}).settings
    assert (paper.rho1 * 8, paper.rho2, paper.l1, paper.gamma, paper.rounds) == (1000, 1, 0.1, 0.5, 50)
    assert not paper.scaled


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("fed-sparce", {}, "unknown algorithm 'fed-sparce': did you mean fed-sparse? available: fed-sparse, "),
        ("fed-sparse", {"rho9": 1}, "unknown parameter 'rho9' of fed-sparse: did you mean rho2? available: rho1, "),
        ("fed-sparse", {"preset": "best"}, "unknown preset 'best' of fed-sparse: available: paper, paper-"),
        ("fed-sparse", {"rounds": "2.5"}, "parameter rounds of fed-sparse is '2.5': it must be a whole number"),
        ("fed-sparse", {"rounds": "inf"}, "parameter rounds of fed-sparse is 'inf': it must be a whole number"),
        ("fed-sparse", {"rho1": "x"}, "parameter rho1 of fed-sparse is 'x': it must be a number"),
        ("fed-sparse", {"rho1": "nan"}, "parameter rho1 of fed-sparse is 'nan': it must be a number"),
        ("fed-sparse", {"rho1": "-1"}, "parameter rho1 is -1.0: it must be above 0"),
        ("fed-sparse", {"gamma": "2"}, "parameter gamma is 2.0: it must be above 0 and at most 1"),
        ("fed-sparse", {"center": "maybe"}, "parameter center of fed-sparse is 'maybe': it must be true or false"),
    ],
)
def test_what_is_wrong_is_named(name: str, params: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput) as refused:
        registry.specify(name, params)
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


def test_every_entry_says_what_leaves_a_silo() -> None:
    for entry in registry.ALGORITHMS.values():
        assert entry.summary
        assert entry.source
        assert entry.disclosure


@pytest.mark.parametrize("name", ["pc-cit-voting", "fci-cit-voting"])
def test_a_message_of_votes_has_room_for_all_tests(name):
    """Five numbers for each of the tests of two of six variables, given any of the other four."""
    assert registry.entry(name).message_size(registry.specify(name, {}).settings, 6) == 5 * 15 * 2**4


@pytest.mark.parametrize("name", [*registry.ALGORITHMS, *registry.STEPS])
def test_an_entry_is_private_if_its_settings_have_an_epsilon(name):
    entry = registry.entry(name)
    assert entry.private == any(setting.name == "epsilon" for setting in fields(entry.config))
