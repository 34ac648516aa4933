"""The settings of the five papers as published, with the place of each value: the presets of the learners.

A preset's name begins with `paper` if the paper introduces the learner. Otherwise it begins with the paper's name for
the learner, which is then a baseline of the paper. Values are in our units: the papers' ρ₁ is divided by the number of
silos if the paper weighs it against the sum of the silos' losses, because ours is per silo.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

FASSY = "Fassy El Fehri et al."
NG = "Ng & Zhang 2022"
CHEN = "Chen, Ma & Yue 2025"
WANG = "Wang, Ma & Wang 2023"
TORRIJOS = "Torrijos et al. 2024"


@dataclass(frozen=True)
class Published:
    """The settings of a learner in some tables and figures of a paper."""

    paper: str
    items: tuple[str, ...]
    """the tables and figures, as the paper numbers them"""
    values: Mapping[str, tuple[Any, str]]
    """setting -> its value in our units, and the place in the paper or in its program"""
    silos: int = 0
    """the number of silos, if a value depends on it"""
    free: tuple[str, ...] = ()
    """settings that the items vary, or that have two readings"""

    @property
    def places(self) -> Mapping[str, tuple[str, ...]]:
        """Place -> the settings that it states."""
        found: dict[str, tuple[str, ...]] = {}
        for name, (_, place) in self.values.items():
            found[place] = (*found.get(place, ()), name)
        return found

    @property
    def of(self) -> str:
        """The paper and the items in one text."""
        return f"{self.paper}: {'; '.join(self.items)}"


def _from(place: str, **values: Any) -> dict[str, tuple[Any, str]]:
    """`values` with their `place`."""
    return {name: (value, place) for name, value in values.items()}


LOOP = _from("B.3.2: threshold 0.3; Table 1 and B.2.1: T = 100, from 5.12 MB", threshold=0.3, rounds=100)


def _fassy(items: tuple[str, ...], silos: int, rho1: float, place: str, **values: Any) -> Published:
    """Settings of Fassy El Fehri et al. for so many `silos`."""
    return Published(FASSY, items, LOOP | _from(place, rho1=rho1 / silos, **values), silos)


SYNTHETIC = {"rho2": 1.0, "l1": 0.1, "gamma": 0.5}
SACHS = "B.3.4; ρ₁ over P = 3"
FED_SPARSE = {
    "paper": _fassy(("Figure 1, top", "Table 1, d = 20", "Figure 5"), 8, 1000, "B.3.2, homogeneous data", **SYNTHETIC),
    "paper-heterogeneous": _fassy(("Figure 1, bottom",), 5, 1000, "B.3.2, heterogeneous data", **SYNTHETIC),
    "paper-few-rows": _fassy(("Figure 2", "Figure 6"), 20, 1000, "B.3.2, heterogeneous data", **SYNTHETIC),
    "paper-sachs": _fassy(("§6.4",), 3, 10_000, SACHS, rho2=5.0, l1=1.0, gamma=0.1, threshold=0.1),
}
PROGRAM = "the authors' program, `notears_linear_admm`"
NOTEARS_ADMM = {
    "paper": Published(
        NG,
        ("Figure 1", "Figure 2", "Figure 3", "Figure 5"),
        _from(PROGRAM, rho1=0.001, rho2=0.001, rho1_growth=1.75, rho2_growth=1.25, rounds=200, center=True)
        | _from(f"{PROGRAM}: XᵀX / (n·K)", mean_loss=True)
        | _from(f"{PROGRAM}: no rule to stop early", tolerance=1e-12)
        | _from(f"{PROGRAM}; example `linear`", l1=0.01)
        | _from("§6, Methods; `postprocess`", threshold=0.3, repair="threshold")
        | _from("Eq. 8 leaves B_jj free", loops=True),
    ),
    "fed-bnsl": _fassy(
        ("Figure 1, top", "Table 1, d = 20", "Figure 5"),
        8,
        1000,
        "B.3.2, homogeneous data, Fed-BNSL",
        rho2=1.0,
        l1=0.01,
        loops=True,
    ),
    "fed-bnsl-heterogeneous": _fassy(
        ("Figure 1, bottom",), 5, 100, "B.3.2, heterogeneous data, Fed-BNSL", rho2=1.0, l1=0.1, loops=True
    ),
    "fed-bnsl-sachs": _fassy(("§6.4",), 3, 100_000, SACHS, rho2=10.0, l1=0.1, threshold=0.1, loops=True),
}
MLP_PROGRAM = "the authors' program, `notears_nonlinear_admm`"
NOTEARS_MLP_ADMM = {
    "paper": Published(
        NG,
        ("Figure 4",),
        _from(MLP_PROGRAM, rho1=0.1, rho2=0.1, rho1_growth=1.75, rho2_growth=1.25, rounds=200, units=10, l1=0.001)
        | _from(f"{MLP_PROGRAM}: loss / K", mean_loss=True)
        | _from(f"{MLP_PROGRAM}: no rule to stop early", tolerance=1e-12, h_tolerance=1e-12)
        | _from(f"{MLP_PROGRAM}: `lambda2` is not used", l2=0.0)
        | _from(f"{MLP_PROGRAM}: L-BFGS-B to its end", steps=15_000)
        | _from("§6, Methods; `postprocess`", threshold=0.3, repair="threshold"),
    ),
}
SHARES = {
    2: {10: (0.3, 0.05), 20: (0.4, 0.3)},
    4: {10: (0.5, 0.5), 20: (0.5, 0.2)},
    8: {10: (0.45, 0.5), 20: (0.5, 0.5)},
    16: {10: (0.5, 0.4), 20: (0.5, 0.5)},
    32: {10: (0.25, 0.35), 20: (0.5, 0.5)},
    64: {10: (0.3, 0.4), 20: (0.25, 0.05)},
}
"""number of silos -> number of variables -> λ_W, λ_A (Chen, Ma & Yue 2025, Tables 10 and 11)"""


def _fdbnl(
    items: tuple[str, ...], silos: int, l1: float, l1_lagged: float, place: str, threshold: float = 0.3
) -> Published:
    """Settings of FDBNL; ρ₁ and λ are divided by the number of silos, because the paper's loss is a sum."""
    return Published(
        CHEN,
        items,
        _from(f"{place}; over K = {silos}", l1=l1 / silos, lagged_price=l1_lagged / l1)
        | _from(f"§4.1; ρ₁ over K = {silos}", rho1=1.0 / silos, rho2=1.0, rho1_growth=1.6, rho2_growth=1.1)
        | _from("§7.4", closed_form=True)
        | _from("the authors' program", threshold=threshold, center=False),
        silos,
        ("lags",),
    )


FDBNL = {
    "paper": _fdbnl(("Figure 3", "Figure 8"), 10, 0.5, 0.5, "Table 9"),
    "paper-dream4": _fdbnl(("Table 7",), 5, 0.0025, 0.0025, "§7.7"),
    "paper-fmri": _fdbnl(("Table 8",), 5, 0.05, 0.01, "§7.6", threshold=0.2),
} | {
    f"paper-d{d}-k{silos}": _fdbnl(("Figures 4 to 7 and 9 to 12",), silos, *pair, f"Table {table}")
    for silos, by_d in SHARES.items()
    for (d, pair), table in zip(by_d.items(), (10, 11), strict=True)
}


def _pfdbnl(items: tuple[str, ...], l1: float, size: str, threshold: float = 0.3) -> Published:
    """Settings of PFDBNL; λ depends on the number of variables."""
    return Published(
        CHEN,
        items,
        _from(f"§4.2, {size}: λ_W = λ_A = {l1}", l1=l1, lagged_price=1.0)
        | _from("§4.2", mu=0.1, rho1=1.0, rho2=1.0, rho1_growth=1.6, rho2_growth=1.1)
        | _from("the authors' program; its threshold of A, 0.1, cannot be set apart", threshold=threshold, center=False)
        | _from("tolerances of ours, as its loop stops by h alone", tolerance=1e-3, h_tolerance=1e-6)
        | _from("no step after the loop", refine=False),
        free=("lags", "participants", "participant_seed"),
    )


PFDBNL = {
    "paper": _pfdbnl(("Table 1", "Table 2", "Table 3", "Table 4", "Table 5"), 0.1, "d = 5 and 10"),
    "paper-large": _pfdbnl(("Table 2", "Table 3", "Table 6"), 0.01, "d = 15 and 20"),
    "paper-fmri": _pfdbnl(("Table 8",), 0.01, "the notebook on fMRI", threshold=0.2),
}
FED_PC = {
    "paper": Published(
        WANG,
        ("Figure 2", "Figure 3", "Figure 4", "Figure 5", "Table 2"),
        _from("§7.4: α = 0.05, l = 50", alpha=0.05, projections=50)
        | _from("§4 and §5, Algorithm 1", mode="projection")
        | _from("§5, Algorithm 2", orientation="conservative", max_sets=0)
        | _from("no rule for few rows", rows_per_cell=0.0),
    ),
}
FED_GES = {
    "paper": Published(
        TORRIJOS,
        ("Table 2", "Table 3", "Figure 1"),
        _from("§3.2, Algorithm 1: UNION; C25 and C50 set a quota", quota=0.0)
        | _from("no guard against a distant fusion", drift=1000.0, last_drift=1000.0)
        | _from("§4.1", limit=10),
        free=("quota", "client"),
    ),
}
RHO = _from("B.3.2; ρ₁ over P = 8", rho1=1000 / 8, rho1_growth=1.0, rho2=1.0, scaled=False, gamma=0.5, l1=0.1)
STEPS = _from("Algorithms 1 and 2", acyclicity="notears", share=0.5)
CLIPS = _from("Theorem 1 holds for clipping by record; `average` is the other reading", clip="product")


def _private(item: str, place: str, epsilon: float, C: float, T: int, K: int, **values: Any) -> Published:
    """Settings of DP-Fed-Sparse-BNSL with clipping at `C`, `T` rounds and `K` steps."""
    chosen = _from(place, epsilon=epsilon, clip_total=C, rounds=T, steps=K, **values)
    return Published(FASSY, (item,), RHO | STEPS | CLIPS | chosen, 8, ("clip", "delta", "mechanism"))


BY_EPSILON = {0.5: (10, 10, 10), 1: (10, 10, 10), 2: (5, 100, 10), 5: (5, 100, 20), 25: (7, 100, 30), 50: (5, 100, 50)}
"""ε -> C, T, K (Table 5, which has no line for ε = 10)"""
BY_SIZE = {20: (10, 100, 30, 0.5), 50: (5, 50, 50, 1.0), 100: (30, 100, 50, 1.0), 200: (30, 100, 100, 1.0)}
"""d -> C, T, K, γ for ε = 10 (Table 7; λ is 0.1 for all)"""
DP_FED_SPARSE = {
    f"paper-epsilon-{epsilon:g}": _private("Figure 3", "Table 5", float(epsilon), float(C), T, K)
    for epsilon, (C, T, K) in BY_EPSILON.items()
} | {
    f"paper-d{d}": _private("Figure 4", "Table 7", 10.0, float(C), T, K, gamma=gamma)
    for d, (C, T, K, gamma) in BY_SIZE.items()
}
PUBLISHED: Mapping[str, Mapping[str, Published]] = {
    "fed-sparse": FED_SPARSE,
    "notears-admm": NOTEARS_ADMM,
    "notears-mlp-admm": NOTEARS_MLP_ADMM,
    "fdbnl": FDBNL,
    "pfdbnl": PFDBNL,
    "fed-pc": FED_PC,
    "fed-ges": FED_GES,
    "dp-fed-sparse": DP_FED_SPARSE,
}
"""learner -> preset -> the published settings"""

Kind = TypeVar("Kind")


def presets_of(learner: str, make: type[Kind], **plain: Any) -> dict[str, Kind]:
    """The presets of `learner`, made with the settings class `make`; `plain` are values without our additions."""
    return {
        preset: make(**plain | {name: value for name, (value, _) in one.values.items()})
        for preset, one in PUBLISHED[learner].items()
    }
