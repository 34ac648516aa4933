"""Settings as typed classes: the same run as with keywords, and one class for every algorithm."""

from dataclasses import fields
from typing import get_type_hints

import pytest

import fedbnsl
from fedbnsl import settings
from fedbnsl.algorithms.constraint.settings import ConstraintSettings
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.registry import ALGORITHMS, parameter_names, specify
from fedbnsl.data.generators.discrete import discrete
from fedbnsl.flows.api.learning import requested_algorithm


def class_of(name):
    return getattr(settings, "".join(word.title() for word in name.split("-")))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_has_a_class_whose_fields_are_its_parameters(name):
    kind = class_of(name)
    assert kind.__name__ in settings.__all__
    assert kind.__doc__.startswith("Settings of ")
    assert tuple(field.name for field in fields(kind)) == parameter_names(name)
    assert set(get_type_hints(kind)) >= set(parameter_names(name))
    assert requested_algorithm(kind(), {}) == (name, {})


def test_the_fields_that_differ_from_their_defaults_are_what_is_asked_for():
    assert requested_algorithm(settings.FedSparse(rounds=60, l1=0.5), {}) == ("fed-sparse", {"rounds": 60, "l1": 0.5})
    assert requested_algorithm(settings.SecureGes(lookahead=2), {}) == ("secure-ges", {"lookahead": 2})
    assert requested_algorithm("fed-sparse", {"rounds": 60}) == ("fed-sparse", {"rounds": 60})


@pytest.mark.parametrize(
    ("name", "preset"), [(name, preset) for name, entry in ALGORITHMS.items() for preset in entry.presets]
)
def test_a_preset_is_a_settings_object_and_comes_back_whole(name, preset):
    found = settings.of(name, preset)
    assert type(found) is class_of(name)
    asked, params = requested_algorithm(found, {})
    assert specify(asked, params) == specify(name, {"preset": preset})


def test_settings_by_name_take_parameters_in_place_of_the_preset():
    assert settings.of("fed-sparse", "paper", rounds=3).rounds == 3
    with pytest.raises(BadInput, match="unknown preset 'papier' of fed-sparse"):
        settings.of("fed-sparse", "papier")


def test_settings_that_are_wrong_are_refused_where_they_are_made():
    with pytest.raises(BadInput, match="parameter gamma is 2"):
        settings.FedSparse(gamma=2)
    with pytest.raises(TypeError, match="unexpected keyword argument 'rouns'"):
        settings.FedSparse(rouns=60)


WRONG = {
    "a number": (5, {}, "algorithm is a int: give a name of `fedbnsl algorithms`, or settings such as"),
    "a class": (settings.FedSparse, {}, r"algorithm is the class FedSparse: give its settings, FedSparse\(\)"),
    "settings of several": (ConstraintSettings(), {}, r"several algorithms: use Pc or Fci or PcVoting"),
    "settings of none": (fedbnsl.algorithms.core.schema.Schema(("a",), {}), {}, "a Schema, which no algorithm uses"),
    "both": (settings.FedSparse(), {"rounds": 3}, r"rounds is given beside FedSparse\(...\): pass it there"),
    "nearly an option": ("fed-sparse", {"epsilom": 1}, "'epsilom' is neither an option of learn nor a parameter of"),
    "nearly an option of auto": ("auto", {"secur": True}, "'secur' is neither an option .*: did you mean secure?"),
}


@pytest.mark.parametrize(("algorithm", "params", "said"), WRONG.values(), ids=WRONG)
def test_what_is_neither_name_nor_settings_is_said_in_one_line(algorithm, params, said):
    with pytest.raises(BadInput, match=said) as raised:
        requested_algorithm(algorithm, params)
    assert "\n" not in str(raised.value)


def test_the_package_completes_what_it_has():
    assert {"learn", "load", "prepare", "Learned", "settings"} <= set(dir(fedbnsl))
    assert fedbnsl.settings.FedSparse is settings.FedSparse
    with pytest.raises(AttributeError, match="has no attribute 'lern'"):
        _ = fedbnsl.lern


def test_a_value_of_any_kind_for_an_unknown_parameter_names_the_parameter():
    data = discrete(4, 2, 50, 1)
    for value in (1, "G2", {"x1": 1}, [0.1], None):
        with pytest.raises(BadInput, match="unknown parameter 'evidence' of fed-pc: available: alpha"):
            fedbnsl.learn(data, "fed-pc", evidence=value)
