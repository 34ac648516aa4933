"""A specification is packed for a worker, unpacked, and built again with its wrappers."""

from dataclasses import asdict, dataclass, fields, replace
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.admm.fed_sparse import FedSparse
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import AlgorithmSpec, Factory, Wrapper
from fedbnsl.algorithms.errors import BadInput, require
from fedbnsl.tasks.silo.runs import RunTerms
from fedbnsl.tasks.silo.service import SiloService

NAMES = sorted(registry.ALGORITHMS | registry.STEPS)

FLOATS = st.floats(0, 1e6) | st.sampled_from([1 / 3, 0.1 + 0.2, 5e-324])
OF_TYPE = {bool: st.booleans(), int: st.integers(0, 10_000), float: FLOATS}


def values_of(kind):
    """Draw a value of a setting's type: a plain value, one of several words, or a union of both."""
    if kind in OF_TYPE:
        return OF_TYPE[kind]
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    return st.one_of(*map(values_of, get_args(kind)))


@st.composite
def specifications(draw):
    """Draw an algorithm, and values for up to three of its settings; those outside their range are left out."""
    name = draw(st.sampled_from(NAMES))
    config = registry.entry(name).config
    hints = {field.name: get_type_hints(config)[field.name] for field in fields(config)}
    spec = registry.specify(name)
    for field in draw(st.lists(st.sampled_from(sorted(hints)), max_size=3, unique=True)) if hints else ():
        value = draw(values_of(hints[field]))
        try:
            spec = replace(spec, settings=replace(spec.settings, **{field: value}))
        except BadInput:
            continue
    return spec


@given(specifications())
def test_a_specification_survives_the_way_to_a_worker(spec):
    found = registry.unpack(registry.pack(spec))
    assert found == spec
    assert type(found.settings) is registry.entry(spec.name).config
    assert {field.name: type(getattr(found.settings, field.name)) for field in fields(found.settings)} == {
        field.name: type(getattr(spec.settings, field.name)) for field in fields(spec.settings)
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_and_its_presets_survive_it(name):
    for preset in (None, *registry.entry(name).presets):
        spec = registry.specify(name, {"preset": preset} if preset else None)
        assert registry.unpack(registry.pack(spec)) == spec


def packed(settings, name="fed-sparse", wrappers=()):
    return wire.encode((name, wire.encode(settings), wrappers))


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (packed({**asdict(FedSparse()), "rho1": -1.0}), "parameter rho1 is -1.0: it must be above 0"),
        (packed({**asdict(FedSparse()), "rho9": 1.0}), "the bytes are not a .*FedSparse.*rho9"),
        (packed({**asdict(FedSparse()), "rounds": "many"}), "the bytes are not a .*FedSparse"),
        (packed(5), "the bytes are not a .*FedSparse.*, but a value of type int"),
        (packed({}, name="fed-sparce"), "unknown algorithm 'fed-sparce': did you mean fed-sparse. available: fed-"),
        (packed({}, wrappers=(("resampling", wire.encode({})),)), "unknown wrapper 'resampling': available: bootstrap"),
    ],
)
def test_bad_settings_are_refused_where_they_arrive(bad, said):
    with pytest.raises(ValueError, match=said):
        registry.unpack(bad)


# Two wrappers that change the numbers a silo sends, so that a reply shows their order.


@dataclass(frozen=True)
class By:
    amount: float = 1.0

    def __post_init__(self):
        require(self.amount > 0, "amount", self.amount, "above 0")


def changing_replies(change):
    def wrap(algorithm, settings):
        def local_solve(silo, broadcast):
            silo, reply = algorithm.local_solve(silo, broadcast)
            return silo, replace(reply, values=change(reply.values, settings.amount))

        return replace(algorithm, local_solve=local_solve)

    return Wrapper("a toy", lambda: Factory(By, wrap))


@pytest.fixture
def toys(monkeypatch):
    """Register the wrappers "add" and "times"."""
    monkeypatch.setitem(registry.WRAPPERS, "add", changing_replies(np.add))
    monkeypatch.setitem(registry.WRAPPERS, "times", changing_replies(np.multiply))


ALONE = AlgorithmSpec("secure-sum", registry.specify("secure-sum").settings)


def sent(spec, path):
    """The numbers that a silo with the rows at `path` sends if it receives only the packed `spec`."""
    terms = RunTerms("run", registry.pack(spec), Schema(("x", "y"), {"a": 3}), 0)
    algorithm = terms.algorithm()
    service = SiloService("a", path)
    reply = service.solve(terms, 1, wire.encode(algorithm.broadcast(algorithm.open_server(terms.schema))))
    service.finish("run")
    service.close()
    return wire.decode(algorithm.reply_type, reply).values


def test_a_silo_solves_inside_the_wrappers_the_innermost_first(toys, tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n-1,0.5\n2,-2\n")
    plain = sent(ALONE, tmp_path / "a.csv")
    assert len(plain) == 3
    added_first = sent(ALONE.wrapped("add", By(3.0)).wrapped("times", By(2.0)), tmp_path / "a.csv")
    np.testing.assert_array_equal(added_first, (plain + 3) * 2)
    multiplied_first = sent(ALONE.wrapped("times", By(2.0)).wrapped("add", By(3.0)), tmp_path / "a.csv")
    np.testing.assert_array_equal(multiplied_first, plain * 2 + 3)


def test_wrappers_travel_with_their_settings(toys):
    spec = ALONE.wrapped("times", By(1 / 3)).wrapped("add", By())
    assert registry.unpack(registry.pack(spec)) == spec


def test_settings_of_a_wrapper_are_checked_where_they_arrive(toys):
    with pytest.raises(BadInput, match=r"parameter amount is -1.0: it must be above 0"):
        registry.unpack(packed({}, "secure-sum", (("add", wire.encode({"amount": -1.0})),)))


def test_an_unknown_wrapper_is_bad_input(toys):
    known = r"unknown wrapper 'divide': available: bootstrap, held-out, add, times"
    with pytest.raises(BadInput, match=known):
        registry.unpack(packed({}, "secure-sum", (("divide", wire.encode({})),)))
    with pytest.raises(BadInput, match=known):
        registry.build(ALONE.wrapped("divide", By()))
