"""Every algorithm by name: what it is, its settings, how it is built, and exactly what leaves a silo."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from .admm import fed_sparse, frank_wolfe, notears, notears_admm
from .baselines import local, pooled_search, pooled_tests, vote_on_graphs, vote_on_tests
from .constraint import fed_pc
from .constraint.settings import ConstraintSettings
from .core import wire
from .core.parsing import parsed
from .core.schema import Kind
from .core.spec import Algorithm, AlgorithmSpec, Entry, Wrapper
from .diagnosis import exchange, missingness
from .diagnosis import tables as diagnosis_tables
from .dp_fed_sparse import algorithm as dp_fed_sparse
from .dynamic import dynotears, fdbnl, lag_order, pfdbnl, var
from .errors import BadInput, among
from .graphs.structure import Structure
from .mlp import admm as mlp_admm
from .mlp import pooled as mlp_pooled
from .moments import dp_covariance, secure_linear, secure_lingam, secure_sum
from .parameters import lagged_regressions, mixed_families, refit, regressions, tables
from .privacy.settings import PrivateSettings
from .resampling import bootstrap
from .score import fed_ges, rfcd, secure_search
from .score.settings import SearchSettings
from .statistics import em, units

OWN_ROWS: tuple[Kind, ...] = ("discrete", "continuous")
ANY_ROWS: tuple[Kind, ...] = (*OWN_ROWS, "mixed")
SERIES: tuple[Kind, ...] = ("time-series",)
TABLES = "sums only: count tables over sets of variables, an exchange for each size of set; of other data moments, once"
SUMMED = f"{TABLES}; with an ε noisy tables, masked"
MARKS = "the end marks of the silo's own graph, once; only sums are seen"
TESTS = "for each test whether its own rows find independence, and how strong the dependence is; only sums are seen"
COUNTS = "masked: counts over sets of variables that the search asks about; of other data centred moments, once"
OWN_DYNAMIC = "the (p + 1)d x d weights of the silo's own structure, once"
OWN_STRUCTURE = "the d x d weights of the silo's own structure, once"


def always(settings: Any) -> bool:
    """Say that directions rest on equal error variances whatever the settings."""
    return True


ALGORITHMS: dict[str, Entry] = {
    "fed-sparse": Entry(
        summary="consensus ADMM, sparse local solve by greedy coordinate descent (Fed-Sparse-BNSL)",
        source="Fassy El Fehri, Bellet, Bastien: Differentially Private and Federated Structure Learning, Alg. 1",
        leaves="changed entries of its d x d weights and one residual a round; d mean squares once; sums of variances",
        config=fed_sparse.FedSparse,
        build=fed_sparse.build,
        presets=fed_sparse.PRESETS,
        equal_variances=always,
    ),
    "notears-admm": Entry(
        summary="consensus ADMM with a closed-form local solve (Fed-BNSL)",
        source="Ng, Zhang 2022: Towards Federated Bayesian Network Structure Learning, Alg. 1",
        leaves="its d x d weights a round, nearly all entries; the first of them give its covariance away",
        config=notears_admm.NotearsAdmm,
        build=notears_admm.build,
        presets=notears_admm.PRESETS,
        equal_variances=always,
    ),
    "fed-frank-wolfe": Entry(
        summary="as fed-sparse, but the local lasso by Frank-Wolfe: a baseline that fails on raw data",
        source="Fassy El Fehri, Bellet, Bastien, Appendix C.1",
        leaves="as fed-sparse",
        config=frank_wolfe.FedFrankWolfe,
        build=frank_wolfe.build,
        equal_variances=always,
    ),
    "secure-sum": Entry(
        summary="one secure sum of second moments, exact or private, then any learner that takes a covariance",
        source="ours; Chen, Drton, Wang 2019 for the equal-variance order",
        leaves="masked: its part of the d(d+1)/2 second moments, once; with noise also masked bucket counts, and noise",
        config=secure_sum.SecureSum,
        build=secure_sum.build,
        kinds=("continuous", "mixed", *SERIES),
        equal_variances=lambda settings: not settings.class_only,
        streams=True,
    ),
    "secure-linear": Entry(
        summary="one secure sum of second moments; directions from equal variances or non-Gaussian errors",
        source="ours; Chen, Drton, Wang 2019; Andrews et al. 2023; Hyvärinen, Smith 2013",
        leaves="masked: its part of the d(d+1)/2 second moments about its own means, once; of 8 sums an edge, once",
        config=secure_linear.SecureLinear,
        build=secure_linear.build,
        gaps=True,
        streams=True,
    ),
    "secure-lingam": Entry(
        summary="DirectLiNGAM from masked sums: a direction for every edge, if errors are not Gaussian",
        source="ours; Shimizu et al. 2011: DirectLiNGAM; Hyvärinen, Smith 2013 for the contrast",
        leaves="masked: its part of the second moments, once; of 2m² means for m variables left, in d − 1 exchanges",
        config=secure_lingam.SecureLingam,
        build=secure_lingam.build,
        streams=True,
    ),
    "dp-fed-sparse": Entry(
        summary="consensus by private greedy coordinate steps, an ε for each silo by itself (DP-Fed-Sparse-BNSL)",
        source="Fassy El Fehri, Bellet, Bastien, Section 5; the order from equal error variances is ours",
        leaves="noisy bucket counts once; the weights that its noisy steps changed and d noisy residual sizes a round",
        config=dp_fed_sparse.DpFedSparse,
        build=dp_fed_sparse.build,
        presets=dp_fed_sparse.PRESETS,
        equal_variances=always,
    ),
    "dp-covariance": Entry(
        summary="every silo releases a private covariance, the server learns from their mean (DP-Fed-BNSL)",
        source="Fassy El Fehri, Bellet, Bastien, Section 6.3; Wang 2018",
        leaves="bucket counts of its variables' sizes and d(d+1)/2 second moments, once, both with noise of its own",
        config=dp_covariance.DpCovariance,
        build=dp_covariance.build,
        kinds=("continuous", "mixed", *SERIES),
        equal_variances=lambda settings: not settings.class_only,
        streams=True,
    ),
    "fdbnl": Entry(
        summary="dynamic networks of time series by consensus ADMM (FDBNL)",
        source="Chen, Ma, Yue 2025: Federated Learning of Dynamic Bayesian Network, Alg. 1",
        leaves="changed entries of its (p + 1)d x d weights a round, their mean squares once; sums of variances",
        config=fdbnl.Fdbnl,
        build=fdbnl.build,
        presets=fdbnl.PRESETS,
        kinds=SERIES,
        lags_before=True,
        equal_variances=always,
    ),
    "pfdbnl": Entry(
        summary="a dynamic network of each silo's own, near one that all agree on (PFDBNL)",
        source="Chen, Ma, Yue 2025, Alg. 2; the last step, with as much trust in the others as helps, is ours",
        leaves="(p + 1)d x d weights and its h, each round it takes part in; its own structure once, in the end",
        config=pfdbnl.Pfdbnl,
        build=pfdbnl.build,
        presets=pfdbnl.PRESETS,
        kinds=SERIES,
        lags_before=True,
        equal_variances=always,
    ),
    "dynotears": Entry(
        summary="baseline: dynamic networks from all series in one place",
        source="Pamfil et al. 2020: DYNOTEARS",
        leaves="every row",
        config=dynotears.Dynotears,
        build=fdbnl.build,
        kinds=SERIES,
        lags_before=True,
        pooled=True,
        equal_variances=always,
    ),
    "dynotears-average": Entry(
        summary="baseline: the mean of the dynamic networks that the silos find by themselves",
        source="Chen, Ma, Yue 2025, Section 4 (Ave)",
        leaves=OWN_DYNAMIC,
        config=dynotears.Dynotears,
        build=lambda settings: local.build(settings, dynotears.dynotears, "average"),
        kinds=SERIES,
        lags_before=True,
        vote=True,
        equal_variances=always,
    ),
    "dynotears-best": Entry(
        summary="baseline: the best of the silos' own dynamic networks, by the truth",
        source="Chen, Ma, Yue 2025, Section 4 (Best)",
        leaves=OWN_DYNAMIC,
        config=dynotears.Dynotears,
        build=lambda settings: local.build(settings, dynotears.dynotears, "medoid"),
        kinds=SERIES,
        lags_before=True,
        needs_truth=True,
        equal_variances=always,
    ),
    "var": Entry(
        summary="baseline: a ridge vector autoregression, lagged edges alone, from one sum",
        source="Lütkepohl 2005; Hoerl, Kennard 1970",
        leaves="its part of the means and second moments of all windows of lags + 1 rows, once; masked with --secure",
        config=var.Var,
        build=var.build,
        kinds=SERIES,
    ),
    "notears": Entry(
        summary="baseline: all rows in one place",
        source="Zheng et al. 2018",
        leaves="every row",
        config=notears.Notears,
        build=fed_sparse.build,
        pooled=True,
        equal_variances=always,
    ),
    "notears-local": Entry(
        summary="baseline: every silo by itself, scores are means over the silos",
        source="Ng, Zhang 2022, Section 6",
        leaves=OWN_STRUCTURE,
        config=notears.Notears,
        build=lambda settings: local.build(settings, notears.notears, "medoid"),
        equal_variances=always,
    ),
    "notears-voting": Entry(
        summary="baseline: edges that more than half of the silos find by themselves",
        source="Na, Yang 2010; Ng, Zhang 2022, Section 6",
        leaves=OWN_STRUCTURE,
        config=notears.Notears,
        build=lambda settings: local.build(settings, notears.notears, "vote"),
        vote=True,
        equal_variances=always,
    ),
    "notears-best": Entry(
        summary="baseline: the best of the silos' own structures, by the truth",
        source="Ng, Zhang 2022, Section 6",
        leaves=OWN_STRUCTURE,
        config=notears.Notears,
        build=lambda settings: local.build(settings, notears.notears, "medoid"),
        needs_truth=True,
        equal_variances=always,
    ),
    "notears-mlp-admm": Entry(
        summary="consensus ADMM for nonlinear data: a small neural network for every variable (NOTEARS-MLP-ADMM)",
        source="Ng, Zhang 2022, Section 5.2; Zheng et al. 2020: Learning Sparse Nonparametric DAGs",
        leaves="the d·(d·u + 2u + 1) weights of its networks of u hidden units, and one residual, a round",
        config=mlp_admm.NotearsMlpAdmm,
        build=mlp_admm.build,
        equal_variances=always,
    ),
    "notears-mlp": Entry(
        summary="baseline for nonlinear data: a small neural network for every variable, all rows in one place",
        source="Zheng et al. 2020",
        leaves="every row",
        config=mlp_pooled.NotearsMlp,
        build=lambda settings: local.build(settings, mlp_pooled.notears_mlp, "medoid"),
        pooled=True,
        equal_variances=always,
    ),
    "notears-mlp-voting": Entry(
        summary="baseline: edges that more than half of the silos find by notears-mlp",
        source="Ng, Zhang 2022, Section 6",
        leaves=OWN_STRUCTURE,
        config=mlp_pooled.NotearsMlp,
        build=lambda settings: local.build(settings, mlp_pooled.notears_mlp, "vote"),
        vote=True,
        equal_variances=always,
    ),
    "notears-mlp-best": Entry(
        summary="baseline: the best of the silos' own structures by notears-mlp, by the truth",
        source="Ng, Zhang 2022, Section 6",
        leaves=OWN_STRUCTURE,
        config=mlp_pooled.NotearsMlp,
        build=lambda settings: local.build(settings, mlp_pooled.notears_mlp, "medoid"),
        needs_truth=True,
        equal_variances=always,
    ),
    "fed-pc": Entry(
        summary="PC-stable with federated independence tests (FedPC), a CPDAG",
        source="Wang, Ma, Wang 2023: Towards Practical Federated Causal Structure Learning, §4",
        leaves=SUMMED,
        config=fed_pc.FederatedSettings,
        build=fed_pc.fed_pc,
        kinds=ANY_ROWS,
        gaps=True,
        streams=True,
    ),
    "fed-fci": Entry(
        summary="FCI with federated independence tests (FedFCI), for latent variables, a PAG",
        source="Wang, Ma, Wang 2023, §4; Zhang 2008",
        leaves=SUMMED,
        config=fed_pc.FederatedSettings,
        build=fed_pc.fed_fci,
        kinds=ANY_ROWS,
        gaps=True,
        streams=True,
    ),
    "pc": Entry(
        summary="baseline: PC on all rows in one place",
        source="Spirtes, Glymour, Scheines 2000; Colombo, Maathuis 2014",
        leaves="every row",
        config=ConstraintSettings,
        build=pooled_tests.pc,
        kinds=ANY_ROWS,
        pooled=True,
        gaps=True,
    ),
    "fci": Entry(
        summary="baseline: FCI on all rows in one place",
        source="Spirtes, Glymour, Scheines 2000; Zhang 2008",
        leaves="every row",
        config=ConstraintSettings,
        build=pooled_tests.fci,
        kinds=ANY_ROWS,
        pooled=True,
        gaps=True,
    ),
    "rfcd": Entry(
        summary="baseline: one graph that the worst-off silo regrets least, by each silo's own GES (RFCD)",
        source="Mian, Kaltenpoth, Kamp 2022: Regret-based Federated Causal Discovery",
        leaves="its regret and what each change of one edge gains in its own rows, d x d numbers for each edge",
        config=rfcd.Rfcd,
        build=rfcd.build,
        kinds=OWN_ROWS,
    ),
    "pc-voting": Entry(
        summary="baseline: the majority of the CPDAGs that PC finds in each silo",
        source="Wang, Ma, Wang 2023, §5",
        leaves=MARKS,
        config=ConstraintSettings,
        build=vote_on_graphs.pc_voting,
        kinds=OWN_ROWS,
        vote=True,
    ),
    "fci-voting": Entry(
        summary="baseline: the majority of the PAGs that FCI finds in each silo",
        source="Wang, Ma, Wang 2023, §5",
        leaves=MARKS,
        config=ConstraintSettings,
        build=vote_on_graphs.fci_voting,
        kinds=OWN_ROWS,
        vote=True,
    ),
    "pc-cit-voting": Entry(
        summary="baseline: PC whose every test is a vote of the silos' own tests",
        source="Wang, Ma, Wang 2023, §5",
        leaves=TESTS,
        config=ConstraintSettings,
        build=vote_on_tests.pc_cit_voting,
        kinds=OWN_ROWS,
    ),
    "fci-cit-voting": Entry(
        summary="baseline: FCI whose every test is a vote of the silos' own tests",
        source="Wang, Ma, Wang 2023, §5",
        leaves=TESTS,
        config=ConstraintSettings,
        build=vote_on_tests.fci_cit_voting,
        kinds=OWN_ROWS,
    ),
    "fed-ges": Entry(
        summary="GES in every silo from the fused graph, a few insertions a round, and structural fusion (FedGES)",
        source="Torrijos, Gámez, Puerta 2024: FedGES, Alg. 1; Puerta et al. 2021 for the fusion",
        leaves="the arcs of the silo's own DAG, every round",
        config=fed_ges.FedGes,
        build=fed_ges.build,
        kinds=OWN_ROWS,
    ),
    "secure-ges": Entry(
        summary="GES on the rows of all silos, scored from summed counts: exactly the pooled GES",
        source="ours; Chickering 2002; Hauser, Bühlmann 2012 for the turns",
        leaves=COUNTS,
        config=secure_search.SecureSearch,
        build=secure_search.secure_ges,
        kinds=ANY_ROWS,
        gaps=True,
        streams=True,
        fills=True,
    ),
    "secure-boss": Entry(
        summary="best order score search on the rows of all silos, scored from summed counts: exactly the pooled BOSS",
        source="ours; Andrews et al. 2023",
        leaves=COUNTS,
        config=secure_search.SecureSearch,
        build=secure_search.secure_boss,
        kinds=ANY_ROWS,
        gaps=True,
        streams=True,
        fills=True,
    ),
    "ges": Entry(
        summary="baseline: GES on all rows in one place",
        source="Chickering 2002; Hauser, Bühlmann 2012 for the turns",
        leaves="every row",
        config=SearchSettings,
        build=pooled_search.pooled_ges,
        kinds=ANY_ROWS,
        pooled=True,
        gaps=True,
        fills=True,
    ),
    "boss": Entry(
        summary="baseline: best order score search on all rows in one place",
        source="Andrews et al. 2023",
        leaves="every row",
        config=SearchSettings,
        build=pooled_search.pooled_boss,
        kinds=ANY_ROWS,
        pooled=True,
        gaps=True,
        fills=True,
    ),
    "ges-union": Entry(
        summary="baseline: GES to the end in every silo, and one fusion",
        source="Torrijos, Gámez, Puerta 2024, §4.1",
        leaves="the arcs of the silo's own DAG, once",
        config=pooled_search.GesUnion,
        build=pooled_search.ges_union,
        kinds=OWN_ROWS,
        vote=True,
    ),
}


STEPS: dict[str, Entry] = {
    "lag-order": Entry(
        summary="before a run on time series with lags=auto: the lag order of least BIC",
        source="ours; Lütkepohl 2005, §4.3; Chen, Chen 2008 for the number of candidates",
        leaves="its part of the means and second moments of all windows of 6 rows, once; masked with --secure",
        config=lag_order.LagOrder,
        build=lag_order.build,
        kinds=SERIES,
    ),
    "units": Entry(
        summary="before a masked run on numbers: about how large each column is, so that sums fit fixed-point numbers",
        source="ours",
        leaves="masked: log2 of the standard deviation of each column, once",
        config=units.Units,
        build=units.build,
        kinds=("continuous", "mixed", *SERIES),
        gaps=True,
        streams=True,
    ),
    "em": Entry(
        summary="before a run on numbers with empty cells: their covariance, by expectation-maximisation",
        source="Dempster, Laird, Rubin 1977; one mean a silo, which stays there, is ours",
        leaves="products of pairs of cells and how many there are, once; expected second moments, some ten times; "
        "masked if the run is",
        config=em.ExpectationMaximisation,
        build=em.build,
        kinds=("continuous", "mixed"),
        gaps=True,
        streams=True,
    ),
    "missingness": Entry(
        summary="after a run on data with empty cells: whether they are empty by chance",
        source="ours; Little 1988",
        leaves="how other columns' means differ where a column is empty, once; masked if the run is",
        config=missingness.Missingness,
        build=missingness.build,
        kinds=ANY_ROWS,
        gaps=True,
        streams=True,
    ),
    "diagnosis": Entry(
        summary="after a run on numbers: what its data can and cannot support, and which silo disagrees",
        source="ours",
        leaves="its part of means and second moments, once; masked with --secure; then how far it is from the others: "
        "four figures with the columns they are greatest in",
        config=exchange.Diagnosis,
        build=exchange.build,
        kinds=("continuous", "mixed", *SERIES),
        gaps=True,
        streams=True,
    ),
    "diagnosis-tables": Entry(
        summary="after a run on discrete data: what its data can and cannot support, and which silo disagrees",
        source="ours",
        leaves="counts of each variable and of each joined pair, once; masked with --secure; then how far it is from "
        "the others: two figures with the columns they are greatest in",
        config=diagnosis_tables.TableDiagnosis,
        build=diagnosis_tables.build,
        kinds=("discrete",),
        gaps=True,
        streams=True,
    ),
    "refit": Entry(
        summary="after a run: each silo refits the weights of the learned structure on its own rows",
        source="Fassy El Fehri, Bellet, Bastien, Appendix B.2.2",
        leaves="where the truth is known and nothing is masked, two errors; its weights stay",
        config=refit.Refit,
        build=refit.build,
        streams=True,
    ),
    "family-tables": Entry(
        summary="after a run on discrete data: the probability tables of the learned structure",
        source="ours; Heckerman, Geiger, Chickering 1995 for the prior",
        leaves="count tables of each variable with its parents, once; masked with --secure",
        config=tables.FamilyTables,
        build=tables.build,
        kinds=("discrete",),
        gaps=True,
        streams=True,
    ),
    "regressions": Entry(
        summary="after a run on continuous data: weights, intercepts and variances of the learned structure",
        source="ours",
        leaves="means, and second moments of the pairs that share a family, once; masked with --secure",
        config=regressions.Regressions,
        build=regressions.build,
        gaps=True,
        streams=True,
    ),
    "mixed-families": Entry(
        summary="after a run on mixed data: regressions, tables and logistic regressions of the learned graph",
        source="ours",
        leaves="means, second moments, count tables of families, once; sums for logistic regressions, some five times; "
        "masked if the run is",
        config=mixed_families.MixedFamilies,
        build=mixed_families.build,
        kinds=("mixed",),
        gaps=True,
        streams=True,
    ),
    "lagged-regressions": Entry(
        summary="after a run on time series: weights, intercepts, variances and forecast errors of the structure",
        source="ours; Lütkepohl 2005 for the reduced form",
        leaves="means, and lagged second moments of the pairs that share a family or the error of one forecast, once; "
        "masked with --secure",
        config=lagged_regressions.LaggedRegressions,
        build=lagged_regressions.build,
        kinds=("time-series",),
    ),
}
"""Exchanges that belong to a run without being an algorithm one would choose."""

WRAPPERS: dict[str, Wrapper] = {
    "bootstrap": Wrapper(
        summary="the learner on rows that each silo draws from its own, many times in lockstep",
        config=bootstrap.Bootstrap,
        wrap=bootstrap.wrap,
    ),
}
"""What turns an algorithm into another one: see `core/spec.py`."""


def entry(name: str) -> Entry:
    """Return the registry's entry for `name`; raises `BadInput` naming the algorithms there are."""
    if name in STEPS:
        return STEPS[name]
    if name not in ALGORITHMS:
        raise BadInput(f"unknown algorithm '{name}': {among(name, ALGORITHMS)}")
    return ALGORITHMS[name]


def wrapper_entry(name: str) -> Wrapper:
    """Return the registry's entry for the wrapper `name`; raises `BadInput` naming the wrappers there are."""
    if name not in WRAPPERS:
        raise BadInput(f"unknown wrapper '{name}': there are {', '.join(WRAPPERS) or 'none'}")
    return WRAPPERS[name]


def parameter_names(name: str) -> tuple[str, ...]:
    """Return the names of the parameters of algorithm `name`."""
    return tuple(field.name for field in fields(entry(name).config))


def specify(
    name: str, params: Mapping[str, Any] | None = None, epsilon: float | None = None, delta: float | None = None
) -> AlgorithmSpec:
    """Return the specification of algorithm `name` with `params` (values or their text) in place of the defaults.

    `epsilon` and `delta` are those that its privacy settings are to have. Raises `BadInput` that names the parameter
    and the value, and for an algorithm that is not private.
    """
    settings = parsed(name, entry(name), params or {})
    if epsilon is None and delta is None:
        return AlgorithmSpec(name, settings)
    if not isinstance(settings, PrivateSettings):
        private = [other for other, one in ALGORITHMS.items() if issubclass(one.config, PrivateSettings)]
        raise BadInput(f"--epsilon: {name} is not private; those that are: {', '.join(private)}")
    return AlgorithmSpec(name, settings.promising(epsilon, delta))


def rests_on(spec: AlgorithmSpec, structure: Structure) -> tuple[str, ...]:
    """Return what the directions in a `structure` that `spec` learned rest on, where the data decided nothing."""
    across = ("Edges across time have theirs from time.",) if structure.lags else ()
    if entry(spec.name).equal_variances(spec.settings) and structure.kind == "dag":
        return ("Directions rest on errors of equal variance, in the units of the data.", *across)
    if structure.kind == "dag" and structure.lags and not structure.adjacency.any():
        return across
    return (
        "Directions rest on conditional independences: those of v-structures, and what follows from them.",
        *across,
    )


def build(spec: AlgorithmSpec) -> Algorithm:
    """Return the algorithm that `spec` describes, inside its wrappers."""
    algorithm = entry(spec.name).build(spec.settings)
    for wrapper in spec.wrappers:
        algorithm = wrapper_entry(wrapper.name).wrap(algorithm, wrapper.settings)
    return algorithm


def pack(spec: AlgorithmSpec) -> bytes:
    """Return `spec` as the bytes that travel to a worker, or stay in a checkpoint."""
    wrappers = tuple((wrapper.name, wire.encode(wrapper.settings)) for wrapper in spec.wrappers)
    return wire.encode((spec.name, wire.encode(spec.settings), wrappers))


def unpack(packed: bytes) -> AlgorithmSpec:
    """Return the specification in `packed`, its settings checked again.

    Raises `BadInput` for a name that is not in the registry and for a value outside its range, `ValueError` for
    settings of something else.
    """
    name, settings, wrappers = wire.decode(tuple, packed)
    spec = AlgorithmSpec(name, wire.decode(entry(name).config, settings))
    for wrapper, its_settings in wrappers:
        spec = spec.wrapped(wrapper, wire.decode(wrapper_entry(wrapper).config, its_settings))
    return spec
