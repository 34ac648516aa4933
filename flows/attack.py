"""A reconstruction attack by an honest-but-curious coordinator on the replies it receives, and two protections.

A run takes place in this process, and the silos' replies are copied on their way to the coordinator. From the copies
the attacker estimates each silo's second moments. The demonstration compares the estimates with the true moments.

The attack is exact without a protection: it solves the local update B = (S + ρ₂I)⁻¹(ρ₂W − β + S) of NOTEARS-ADMM for S
(Fassy El Fehri et al., A.1). In round 1, W = β = 0. Later rounds disclose S as well, since the coordinator can compute
β from the replies and its own W.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core.protocol import FederatedAlgorithm, rounds
from fedbnsl.algorithms.core.schema import FloatArray
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.secure import masks
from fedbnsl.algorithms.secure.messages import read_vector
from fedbnsl.algorithms.statistics.moments import products
from fedbnsl.data.federated import FederatedData
from fedbnsl.tasks.silo.messages import MethodCall
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tasks.transport.federation import SiloTransport
from fedbnsl.tasks.transport.in_process import ImmediateAnswer, InProcessFederation, InProcessTransport

ATTACKED = "notears-admm"
PRESET = {"preset": "fed-bnsl", "rounds": "1"}


@dataclass(frozen=True)
class AttackResult:
    """The success of the attack under one protection."""

    protection: str
    error: dict[str, float]
    """by silo, the relative error of the attacker's estimate of its second moments"""
    public: dict[str, float]
    """by silo, the relative error of the mean over all silos, which every result discloses"""
    example: str
    """the reconstruction: two second moments of the first silo, with their true values"""
    refused: str = ""
    """the reason why there is nothing to attack, if the protection does not run on these rows"""

    @property
    def succeeds(self) -> bool:
        """Whether the median error of the estimates is less than half the median error of the mean of all silos."""
        return not self.refused and median(self.error.values()) < median(self.public.values()) / 2

    @property
    def finding(self) -> str:
        """The attacker's information, in a sentence."""
        if self.refused:
            return f"does not run on these rows: {self.refused}"
        if not self.succeeds:
            return f"nothing beyond the mean of all silos was reconstructed; the attacker's guesses: {self.example}"
        count = len(self.error)
        return f"the second moments of each of the {count} silos were reconstructed: {self.example}"


def run_attack(data: FederatedData, epsilon: float) -> tuple[AttackResult, ...]:
    """The results of the attack on plain, masked and private replies.

    Raises `BadInput` for data that are not continuous, and for a single silo.
    """
    if data.schema.kind != "continuous":
        raise BadInput(f"the attack needs continuous data with independent rows, not {data.schema.kind}")
    if len(data.tables) < 2:
        raise BadInput("the attack compares a silo with the sum of all: give a data set of 2 silos or more")
    return (plain(data), masked(data), private(data, epsilon))


def plain(data: FederatedData) -> AttackResult:
    """Attack round 1 of notears-admm without protection: the coordinator receives each silo's weight matrix B_p."""
    captured: dict[str, FloatArray] = {}
    algorithm, rho2 = attacked_algorithm()
    only = next(iter(rounds(wiretapped(algorithm, data, captured), federation(data))))
    mean = reconstruct_from_first_reply(only.server.B_sum / len(data.tables), rho2)
    return attack_errors(
        "plain replies", data, {silo: reconstruct_from_first_reply(B, rho2) for silo, B in captured.items()}, mean
    )


def masked(data: FederatedData) -> AttackResult:
    """Attack the same round under secure aggregation: the coordinator has only masked vectors and their sum."""
    algorithm, rho2 = attacked_algorithm()
    d = len(data.schema.variables)
    watched = WatchedFederation(data.schema, data.tables, secure=True)
    only = next(iter(rounds(algorithm, watched)))
    guesses = {}
    for silo, vector in watched.captured.items():
        B = masks.decode_fixed(read_vector(vector, silo))[: d * d].reshape(d, d)
        guesses[silo] = reconstruct_from_first_reply(B, rho2)
    mean = reconstruct_from_first_reply(only.server.B_sum / len(data.tables), rho2)
    return attack_errors("--secure", data, guesses, mean)


def private(data: FederatedData, epsilon: float) -> AttackResult:
    """Attack dp-covariance, in which each silo sends its second moments with noise; the reply is the estimate."""
    protection = f"dp-covariance, ε = {epsilon:g}"
    try:
        return _private(data, epsilon, protection)
    except BadInput as error:
        return AttackResult(protection, {}, {}, "", refused=str(error))


def _private(data: FederatedData, epsilon: float, protection: str) -> AttackResult:
    captured: dict[str, FloatArray] = {}
    algorithm = registry.build(registry.specify("dp-covariance", epsilon=epsilon))
    guesses: dict[str, FloatArray] = {}
    for one in rounds(wiretapped(algorithm, data, captured), federation(data)):
        if len(one.server.S):
            alone = replace(one.server, S=np.empty((0, 0)))
            for silo, part in captured.items():
                guesses[silo] = algorithm.aggregate(alone, lone_reply(silo, part)).S
            return attack_errors(protection, data, guesses, one.server.S)
    raise AssertionError("dp-covariance ends with a covariance")


def lone_reply(silo: str, part: Any) -> Any:
    """The replies that the server would have received from this one silo alone."""
    from fedbnsl.algorithms.core.protocol import Replies

    return Replies((silo,), total=part)


def attacked_algorithm() -> tuple[FederatedAlgorithm[Any, Any, Any, Any], float]:
    """The algorithm under attack and its ρ₂, which is public."""
    spec = registry.specify(ATTACKED, PRESET)
    return registry.build(spec), spec.settings.rho2


def federation(data: FederatedData) -> InProcessFederation:
    """The silos of `data` in this process."""
    return InProcessFederation(data.schema, data.tables)


def wiretapped(
    algorithm: FederatedAlgorithm[Any, Any, Any, Any], data: FederatedData, captured: dict[str, Any]
) -> FederatedAlgorithm[Any, Any, Any, Any]:
    """`algorithm` with a copy of each silo's last reply, its B or its summand, in `captured`."""

    def open_silo(table: Any, schema: Any, silo: str, rng: Any) -> tuple[str, Any]:
        return silo, algorithm.open_silo(table, schema, silo, rng)

    def local_solve(named: tuple[str, Any], broadcast: Any) -> tuple[tuple[str, Any], Any]:
        silo, state = named
        state, reply = algorithm.local_solve(state, broadcast)
        d = len(data.schema.variables)
        assert algorithm.summand is not None
        vector = algorithm.summand(reply)
        captured[silo] = vector if algorithm.whole_numbers else vector[: d * d].reshape(d, d)
        return (silo, state), reply

    private = algorithm.private
    if private is not None:
        unkeyed = private
        private = replace(
            unkeyed,
            releases=lambda named, broadcast: unkeyed.releases(named[1], broadcast),
            with_key=lambda named, key: (named[0], unkeyed.with_key(named[1], key)),
        )
    return replace(algorithm, open_silo=open_silo, local_solve=local_solve, private=private, persisted_state=())


@dataclass
class WatchedFederation(InProcessFederation):
    """A federation that keeps a copy of every masked vector on its way to the coordinator."""

    def transport(self, services: Mapping[str, SiloService]) -> SiloTransport:
        """The usual transport, which also copies the masked vectors into `captured`."""
        self.captured: dict[str, bytes] = {}
        return CopyingTransport(services, self.captured)


@dataclass(frozen=True)
class CopyingTransport(InProcessTransport):
    """A transport that copies the answers of the phase "mask", which are the masked vectors."""

    captured: dict[str, bytes]

    def submit(self, silo: str, call: MethodCall) -> ImmediateAnswer:
        """Carry out `call`, and copy its answer."""
        answered = super().submit(silo, call)
        if call.method == "secure_answer" and call.arguments[-1].phase == "mask":
            self.captured[silo] = answered.answer
        return answered


def attack_errors(
    protection: str, data: FederatedData, guesses: Mapping[str, FloatArray], public: FloatArray
) -> AttackResult:
    """The errors of the estimates `guesses`, and of the mean over all silos, which every result discloses."""
    true = {silo: products(table) / len(table) for silo, table in data.tables.items()}
    return AttackResult(
        protection,
        {silo: relative_error(guesses[silo], true[silo]) for silo in sorted(true)},
        {silo: relative_error(public, true[silo]) for silo in sorted(true)},
        _example(data, guesses, true),
    )


def _example(data: FederatedData, guesses: Mapping[str, FloatArray], true: Mapping[str, FloatArray]) -> str:
    """The estimates of two moments of the first silo by name, as text: its first mean square, and its mean product
    with the largest absolute value.
    """
    silo, names = min(true), data.schema.variables
    texts = [
        f"the mean square of {names[0]} at silo {silo} as {guesses[silo][0, 0]:.4g} (it is {true[silo][0, 0]:.4g})"
    ]
    if len(names) > 1:
        i, j = np.unravel_index(np.argmax(np.abs(np.triu(true[silo], 1))), true[silo].shape)
        product = f"{guesses[silo][i, j]:.4g} (it is {true[silo][i, j]:.4g})"
        texts.append(f"the mean product of {names[i]} and {names[j]} as {product}")
    return ", ".join(texts)


def reconstruct_from_first_reply(B: FloatArray, rho2: float) -> FloatArray:
    """The second moments S `[d, d]` of the silo that replied `B` in round 1: ρ₂((I − B)⁻¹ − I).

    Source: Fassy El Fehri et al., A.1.
    """
    one = np.eye(len(B))
    return np.asarray(rho2 * (np.linalg.inv(one - B) - one))


def relative_error(guess: FloatArray, S: FloatArray) -> float:
    """‖guess − S‖_F / ‖S‖_F: 0 means an exact reconstruction of the silo's second moments."""
    return float(np.linalg.norm(guess - S) / np.linalg.norm(S))
