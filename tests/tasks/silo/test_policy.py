"""A silo does only what its owner's policy allows, for every caller and any number of requests."""

import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.diagnosis.exchange import Diagnosis
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.tasks.silo.gate import Gate
from fedbnsl.tasks.silo.policy import UNRESTRICTED, NotAllowed, Policy, policy_of
from fedbnsl.tasks.silo.runs import RunTerms
from fedbnsl.tasks.silo.secure_sums import SecureSumRequest

SCHEMA = Schema(("a", "b"), {"clinic": 100, "lab": 1000})
"""the limits of this owner do not concern the rows of the other silo"""


def spec(name, epsilon=None, delta=None, **params):
    return registry.specify(name, params, epsilon, delta)


ALLOWED = {
    "anything": (UNRESTRICTED, spec("fed-sparse"), False),
    "an algorithm by name": (Policy(algorithms=("fed-sparse",)), spec("fed-sparse"), False),
    "a step, where algorithms are named": (
        Policy(algorithms=("fed-sparse",)),
        AlgorithmSpec("diagnosis", Diagnosis()),
        False,
    ),
    "an ε within the limit": (Policy(epsilon=1.0), spec("secure-sum", 1.0), True),
    "as many rows as are needed": (Policy(rows=100), spec("fed-sparse"), False),
    "as many silos as are needed": (Policy(silos=2), spec("fed-sparse"), True),
    "masks": (Policy(masked=True), spec("fed-sparse"), True),
}
REFUSED = {
    "another algorithm": (
        Policy(algorithms=("secure-sum",)),
        spec("fed-sparse"),
        False,
        "allowed algorithms: secure-sum",
    ),
    "a step": (
        Policy(steps=("regressions",)),
        AlgorithmSpec("diagnosis", Diagnosis()),
        False,
        "step diagnosis is not allowed; allowed steps: regressions",
    ),
    "a step that only a request needs": (
        Policy(steps=()),
        AlgorithmSpec("unknown-targets", None),
        False,
        "step unknown-targets is not allowed; allowed steps: none",
    ),
    "a wrapper": (
        Policy(steps=()),
        spec("fed-sparse").wrapped("bootstrap", None),
        False,
        "step bootstrap is not allowed; allowed steps: none",
    ),
    "no ε": (Policy(epsilon=1.0), spec("fed-sparse"), False, "promises no ε: the maximum ε is 1"),
    "a broken promise": (Policy(epsilon=1.0), spec("secure-sum", 1.0, insecure_seed=1), True, "promises no ε"),
    "too large an ε": (Policy(epsilon=1.0), spec("secure-sum", 1.5), True, "its ε is"),
    "an ε that is small at a large δ only": (
        Policy(epsilon=1.0),
        spec("secure-sum", 0.99, 0.009),
        True,
        r"at the owner's δ = 0\.0001: the maximum is 1",
    ),
    "an ε that is small at another δ than the owner's": (
        Policy(epsilon=1.0, delta=1e-8),
        spec("secure-sum", 1.0),
        True,
        "at the owner's δ = 1e-08: the maximum is 1",
    ),
    "too few rows": (Policy(rows=101), spec("fed-sparse"), False, "the minimum is 101 rows, and this silo has 100"),
    "too few silos": (
        Policy(silos=3),
        spec("fed-sparse"),
        True,
        "a secure sum would be over 2 silos: the minimum is 3",
    ),
    "plain replies": (Policy(masked=True), spec("fed-sparse"), False, "replies must be masked"),
}


@pytest.mark.parametrize(("policy", "asked", "masked"), ALLOWED.values(), ids=ALLOWED)
def test_what_is_allowed(policy, asked, masked):
    policy.check("clinic", asked, SCHEMA, behind_masks=masked)


@pytest.mark.parametrize(("policy", "asked", "masked", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_in_one_line(policy, asked, masked, reason):
    with pytest.raises(
        NotAllowed, match=rf"silo clinic: its owner's policy refuses {asked.name}: .*{reason}"
    ) as refusal:
        policy.check("clinic", asked, SCHEMA, behind_masks=masked)
    assert "\n" not in str(refusal.value)


def test_delta_follows_the_owners_rows_also_where_another_silo_has_fewer():
    for silo, delta in (("clinic", 1e-4), ("lab", 1e-6)):
        with pytest.raises(NotAllowed, match=f"at the owner's δ = {delta:.3g}: the maximum is 1"):
            Policy(epsilon=1.0).check(silo, spec("secure-sum", 1.5), SCHEMA, behind_masks=True)


def test_a_sum_over_the_survivors_is_one_over_enough_silos():
    Policy(silos=3).check_sum("clinic", 3)
    with pytest.raises(NotAllowed, match="a sum over 2 silos: the minimum is 3"):
        Policy(silos=3).check_sum("clinic", 2)


MISWRITTEN = {
    "an unknown key": ({"algoritms": ["fed-pc"]}, "unknown key 'algoritms'"),
    "an unknown algorithm": ({"algorithms": ["fed-pcc"]}, "algorithms has the unknown name 'fed-pcc'"),
    "an unknown step": ({"steps": ["fed-pc"]}, "steps has the unknown name 'fed-pc'"),
    "a name instead of a list": ({"algorithms": "fed-pc"}, "it must be a list of names"),
    "a limit of nothing": ({"epsilon": 0}, "epsilon is 0"),
    "a limit that is no number": ({"epsilon": float("nan")}, "epsilon is nan"),
    "a word for a number": ({"total_epsilon": "3"}, "it must be a number"),
    "a delta of one": ({"delta": 1.0}, "delta is 1"),
    "half a silo": ({"silos": 2.5}, "it must be a whole number"),
    "no rows": ({"rows": 0}, "rows is 0"),
    "no cells": ({"cells": 0}, "cells is 0"),
    "half a cell": ({"cells": 2.5}, "it must be a whole number"),
    "fewer variables than none": ({"variables": -1}, "variables is -1"),
    "no parameters": ({"parameters": 0}, "parameters is 0"),
    "yes for true": ({"masked": "yes"}, "it must be true or false"),
    "one for true": ({"experiments": 1}, "it must be true or false"),
}


@pytest.mark.parametrize(("said", "reason"), MISWRITTEN.values(), ids=MISWRITTEN)
def test_a_policy_that_is_miswritten_is_refused(said, reason):
    with pytest.raises(BadInput, match=f"policy: .*{reason}"):
        policy_of(said)


def test_a_policy_is_what_was_written():
    said = {
        "algorithms": ["fed-pc"],
        "steps": [],
        "epsilon": 1,
        "total_epsilon": 3.0,
        "delta": 1e-8,
        "silos": 3,
        "rows": 9,
        "cells": 5,
        "variables": 4,
        "parameters": 0.33,
        "experiments": True,
    }
    assert policy_of(said) == Policy(("fed-pc",), (), 1.0, 3.0, 1e-8, False, 3, 9, 5, 4, 0.33, True)
    assert policy_of({}) == UNRESTRICTED


TARGETS = {
    "this silo alone": ({"a": (("x",),)}, "a combination is over a alone: the minimum is 2 silos"),
    "another silo alone": ({"b": (("x",),)}, "a combination is over b alone"),
    "all silos but one": (dict.fromkeys("bcde", (("x",),)), "a combination is over a alone"),
    "pairs whose sums combine to one": (
        {"a": (("x", "y"),), "b": (("x", "z"),), "c": (("y", "z"),)},
        "a combination is over a alone",
    ),
    "one of its own conditions": ({"a": (("x",), ()), "b": (("x",),), "c": (("x",),)}, None),
    "two silos": ({"a": (("x",),), "b": (("x",),)}, None),
}


def check_sums(silo, policy, schema):
    """Check the sums of a run of `secure-linear`."""
    terms = RunTerms("run", registry.pack(spec("secure-linear")), schema, 0)
    Gate(silo, policy, guarded=True).check_sums(terms, schema.silos)


@pytest.mark.parametrize(("targets", "reason"), TARGETS.values(), ids=TARGETS)
def test_masked_sums_for_targets_do_not_disclose_one_silo(targets, reason):
    """The owner can allow it; without masks, every reply is visible anyway."""
    stretches = {"a": (60, 40)} if len(targets.get("a", ())) == 2 else {}
    schema = Schema(tuple("xyzw"), dict.fromkeys("abcde", 100), targets=targets, stretches=stretches)
    for policy in (
        Policy(rows=5),
        Policy(masked=True, experiments=True),
        Policy(masked=True) if not reason else UNRESTRICTED,
    ):
        check_sums("a", policy, schema)
    if reason:
        with pytest.raises(NotAllowed, match=f"silo a: its owner's policy refuses secure-linear: .*{reason}"):
            check_sums("a", Policy(masked=True), schema)


def test_a_condition_of_too_few_silos_is_as_much_as_these_silos():
    targets, stretches = dict.fromkeys("ab", (("x",), ())), dict.fromkeys("ab", (60, 40))
    schema = Schema(tuple("xyzw"), dict.fromkeys("abcde", 100), targets=targets, stretches=stretches)
    check_sums("c", Policy(masked=True, silos=2), schema)
    with pytest.raises(NotAllowed, match="a combination is over a, b alone: the minimum is 3 silos"):
        check_sums("c", Policy(masked=True, silos=3), schema)


def test_the_silo_holds_every_request_to_it_and_nothing_is_kept_of_one_that_is_refused(hosted):
    owners = hosted()
    owners.restart(policy=Policy(masked=True, algorithms=("secure-sum",)))
    silo, terms = owners.services["silo-1"], owners.terms("secure-sum")
    silo.admit(terms, True)
    with pytest.raises(NotAllowed, match="replies must be masked"):
        silo.solve(terms, 1, b"")
    for ask in (lambda other: silo.admit(other, True), lambda other: silo.secure_answer(other, 1, QUESTION)):
        with pytest.raises(NotAllowed, match="allowed algorithms: secure-sum"):
            ask(owners.terms("fed-sparse"))
    assert not list(owners.files["silo-1"].parent.glob(".fedbnsl/*"))


QUESTION = SecureSumRequest("advertise", b"")
