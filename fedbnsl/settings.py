"""The settings of every algorithm as a class, for completion in editors and for type checkers.

    from fedbnsl import learn
    from fedbnsl.settings import FedSparse

    found = learn("my_folder", FedSparse(rounds=60))

The name of a class is that of its algorithm: `FedSparse` for `fed-sparse`, `NotearsMlpVoting` for
`notears-mlp-voting`. `fedbnsl algorithms NAME` explains the fields. A preset is `of("fed-sparse", preset="paper")`.
"""

from dataclasses import fields
from typing import Any

from fedbnsl.algorithms.admm.fed_sparse import FedSparse
from fedbnsl.algorithms.admm.frank_wolfe import FedFrankWolfe
from fedbnsl.algorithms.admm.notears import Notears
from fedbnsl.algorithms.admm.notears_admm import NotearsAdmm
from fedbnsl.algorithms.baselines.pooled import GesUnion
from fedbnsl.algorithms.constraint.fed_pc import FederatedSettings, FedPc
from fedbnsl.algorithms.constraint.settings import ConstraintSettings
from fedbnsl.algorithms.dp_fed_sparse.settings import DpFedSparse
from fedbnsl.algorithms.dynamic.fdbnl import Dynotears, Fdbnl
from fedbnsl.algorithms.dynamic.pfdbnl import Pfdbnl
from fedbnsl.algorithms.dynamic.var import Var
from fedbnsl.algorithms.events.fed_hawkes import FedHawkes
from fedbnsl.algorithms.moments.fed_bfci import FedBfci
from fedbnsl.algorithms.moments.secure_additive import SecureAdditive
from fedbnsl.algorithms.moments.secure_linear import SecureLinear
from fedbnsl.algorithms.moments.secure_lingam import SecureLingam
from fedbnsl.algorithms.moments.secure_sum import DpCovariance, SecureSum
from fedbnsl.algorithms.score.fed_ges import FedGes
from fedbnsl.algorithms.score.rfcd import Rfcd
from fedbnsl.algorithms.score.settings import SearchSettings, SecureSearch

from .algorithms.mlp.admm import NotearsMlpAdmm
from .algorithms.mlp.pooled import NotearsMlp


class NotearsLocal(Notears):
    """Settings of `notears-local`."""


class NotearsVoting(Notears):
    """Settings of `notears-voting`."""


class NotearsBest(Notears):
    """Settings of `notears-best`."""


class NotearsMlpVoting(NotearsMlp):
    """Settings of `notears-mlp-voting`."""


class NotearsMlpBest(NotearsMlp):
    """Settings of `notears-mlp-best`."""


class DynotearsAverage(Dynotears):
    """Settings of `dynotears-average`."""


class DynotearsBest(Dynotears):
    """Settings of `dynotears-best`."""


class FedFci(FederatedSettings):
    """Settings of `fed-fci`."""


class Pc(ConstraintSettings):
    """Settings of `pc`."""


class Fci(ConstraintSettings):
    """Settings of `fci`."""


class PcVoting(ConstraintSettings):
    """Settings of `pc-voting`."""


class FciVoting(ConstraintSettings):
    """Settings of `fci-voting`."""


class PcCitVoting(ConstraintSettings):
    """Settings of `pc-cit-voting`."""


class FciCitVoting(ConstraintSettings):
    """Settings of `fci-cit-voting`."""


class SecureGes(SecureSearch):
    """Settings of `secure-ges`."""


class SecureBoss(SecureSearch):
    """Settings of `secure-boss`."""


class Ges(SearchSettings):
    """Settings of `ges`."""


class Boss(SearchSettings):
    """Settings of `boss`."""


__all__ = [
    "Boss",
    "DpCovariance",
    "DpFedSparse",
    "Dynotears",
    "DynotearsAverage",
    "DynotearsBest",
    "Fci",
    "FciCitVoting",
    "FciVoting",
    "Fdbnl",
    "FedBfci",
    "FedFci",
    "FedFrankWolfe",
    "FedGes",
    "FedHawkes",
    "FedPc",
    "FedSparse",
    "Ges",
    "GesUnion",
    "Notears",
    "NotearsAdmm",
    "NotearsBest",
    "NotearsLocal",
    "NotearsMlp",
    "NotearsMlpAdmm",
    "NotearsMlpBest",
    "NotearsMlpVoting",
    "NotearsVoting",
    "Pc",
    "PcCitVoting",
    "PcVoting",
    "Pfdbnl",
    "Rfcd",
    "SecureAdditive",
    "SecureBoss",
    "SecureGes",
    "SecureLinear",
    "SecureLingam",
    "SecureSum",
    "Var",
    "of",
]


def of(algorithm: str, preset: str | None = None, **params: Any) -> Any:
    """The settings of `algorithm`, a name of `fedbnsl algorithms`, with `params` in place of defaults.

    The defaults are those of the `preset`, if given. Raises `BadInput` naming an unknown algorithm, preset or setting.
    """
    from fedbnsl.algorithms.registry import specify

    parsed = specify(algorithm, {**params, **({} if preset is None else {"preset": preset})}).settings
    kind = globals()["".join(word.title() for word in algorithm.split("-"))]
    return kind(**{field.name: getattr(parsed, field.name) for field in fields(parsed) if field.init})
