"""The owner's limits on counts hold for every table that leaves a silo, for all algorithms."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.diagnosis import tables as diagnosis
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.parameters import mixed_families
from fedbnsl.algorithms.parameters import tables as family_tables
from fedbnsl.algorithms.privacy.ledger import MemoryLedger
from fedbnsl.data.folder.about import NO_DECLARATION, declarations
from fedbnsl.flows.engines.dask import _policy_notes
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.tasks.silo.journal import RunState
from fedbnsl.tasks.silo.policy import NotAllowed, Policy
from fedbnsl.tasks.silo.runs import RunTerms
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tasks.silo.source import TableSource
from fedbnsl.tasks.transport.described_schema import schema_from_descriptions
from fedbnsl.tasks.transport.federation import Patience, Roster, SiloFederation
from fedbnsl.tasks.transport.in_process import InProcessTransport, in_process_roster
from fedbnsl.tracking.report.sections import small_cell_warnings
from fedbnsl.tracking.result import SUPPRESSED_CELLS
from tests.tracking.golden import RUNS

LABELS = ("a", "b", "c")
LEVELS = dict.fromkeys(LABELS, ("x", "y", "z"))
ROWS = {"clinic": 150, "lab": 220}
CHAIN = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]], bool)
BOTH = np.array([[0, 0, 1], [0, 0, 1], [0, 0, 0]], bool)


@pytest.fixture(scope="module")
def codes():
    """Rows of a → b → c at two silos, with rare levels."""
    rng, found = np.random.default_rng(5), {}
    for silo, n in ROWS.items():
        a = rng.choice(3, n, p=[0.6, 0.37, 0.03])
        b = np.where(rng.random(n) < 0.7, a, rng.choice(3, n))
        found[silo] = np.column_stack([a, b, np.where(rng.random(n) < 0.7, b, rng.choice(3, n))]).astype(np.int16)
    return found


SCHEMA = Schema(LABELS, ROWS, "discrete", LEVELS)


class Seen(SiloService):
    """A silo whose replies are recorded, including those that leave it masked."""

    def __init__(self, *given):
        super().__init__(*given)
        self.replies = []

    def _solve(self, *request, behind_masks):
        answer = super()._solve(*request, behind_masks=behind_masks)
        self.replies.append(answer.reply)
        return answer


def run(tables, spec, policy, start=None, *, schema=SCHEMA, secure=False):
    """The last round of `spec` over services under `policy`, and all replies."""
    services = {
        silo: Seen(silo, TableSource(table, MemoryLedger(), RunState(0)), policy) for silo, table in tables.items()
    }
    roster = Roster(InProcessTransport(services), schema.silos, Patience(absent=60.0))
    terms = RunTerms("run", registry.pack(spec), schema, 3)
    algorithm = registry.build(spec)
    *_, last = rounds(algorithm, SiloFederation(roster, terms, secure), None if start is None else (0, start))
    return last, [reply for service in services.values() for reply in service.replies]


def whole_numbers(spec, replies):
    """All whole numbers in `replies`, also in the messages of resamples."""
    if spec.wrappers:
        inner = registry.build(replace(spec, wrappers=()))
        replies = [wire.decode(inner.reply_type, one) for reply in replies for one in reply.messages]
    arrays = [values for reply in replies for values in vars(reply).values() if isinstance(values, np.ndarray)]
    return np.concatenate([one.ravel() for one in arrays if np.issubdtype(one.dtype, np.integer)])


def family_counts(tables, dag, policy, *, secure=False):
    spec = AlgorithmSpec("family-tables", family_tables.FamilyTables())
    last, _ = run(tables, spec, policy, family_tables.start(SCHEMA, dag), secure=secure)
    return [table.counts for table in family_tables.count_tables(last.server)]


def own_counts(table, family):
    shape = (3,) * len(family)
    cells = np.ravel_multi_index(tuple(table[:, family].T.astype(int)), shape)
    return np.bincount(cells, minlength=3 ** len(family)).reshape(shape)


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("least", [2, 5])
def test_small_cells_of_a_silo_are_0_before_they_enter_a_sum(codes, least, secure):
    found = family_counts(codes, CHAIN, Policy(cells=least), secure=secure)
    for counts, family in zip(found, ([0], [0, 1], [1, 2]), strict=True):
        parts = [own_counts(table, family) for table in codes.values()]
        np.testing.assert_array_equal(counts, sum(np.where(part < least, 0, part) for part in parts))
    assert any((own_counts(table, [0, 1]) % least == 1).any() for table in codes.values())


ASKED = {
    "fed-pc": registry.specify("fed-pc"),
    "fed-fci": registry.specify("fed-fci"),
    "diagnosis-tables": AlgorithmSpec("diagnosis-tables", diagnosis.TableDiagnosis()),
    "resamples": registry.specify("fed-pc").wrapped("bootstrap", registry.wrapper_entry("bootstrap").config(2, 0)),
}


@pytest.mark.parametrize("name", ASKED)
def test_no_reply_of_any_algorithm_has_a_small_count(codes, name):
    start = diagnosis.start(SCHEMA, Structure(LABELS, CHAIN.astype(float))) if name == "diagnosis-tables" else None
    counted = 0
    for policy in (Policy(), Policy(cells=5)):
        _, replies = run(codes, ASKED[name], policy, start)
        whole = whole_numbers(ASKED[name], replies)
        small = int(((whole > 0) & (whole < 5)).sum())
        counted += small
        assert small == 0 or policy == Policy()
    assert counted > 0


@pytest.mark.parametrize("name", ["secure-ges", "secure-boss"])
def test_searches_that_compare_scores_of_tables_are_refused(codes, name):
    """Without small cells, the margins of tables disagree, and such a search did not end."""
    with pytest.raises(NotAllowed, match=f"refuses {name}: counts below 5 become 0, .* use fed-pc"):
        run(codes, registry.specify(name), Policy(cells=5))
    Policy(cells=5).check("clinic", registry.specify("fed-ges"), SCHEMA, behind_masks=False)


def test_votes_rest_on_all_counts_as_these_stay_at_the_silo(codes):
    one, other = (run(codes, registry.specify("pc-cit-voting"), policy)[1] for policy in (Policy(), Policy(cells=50)))
    assert wire.encode(one) == wire.encode(other)


def test_a_table_of_too_many_variables_is_refused(codes):
    assert len(family_counts(codes, CHAIN, Policy(variables=2))) == 3
    with pytest.raises(NotAllowed, match="policy refuses a table of 3 variables: the maximum is 2"):
        family_counts(codes, BOTH, Policy(variables=2))
    with pytest.raises(NotAllowed, match="a table of 2 variables: the maximum is 1"):
        run(codes, registry.specify("fed-pc"), Policy(variables=1))


def test_a_table_of_too_many_parameters_is_refused(codes):
    """26 free parameters are more than 0.17 of 150 rows, but not of 220."""
    assert len(family_counts({"lab": codes["lab"]} | codes, BOTH, Policy(parameters=0.18))) == 3
    with pytest.raises(NotAllowed, match=r"silo clinic: .* a table of 26 free parameters: the maximum is 0.17 of 150"):
        family_counts(codes, BOTH, Policy(parameters=0.17))


MIXED = Schema(("a", "dose"), {"clinic": 40, "lab": 40}, "mixed", {"a": ("x", "y", "z")})
NUMBERS = Schema(("u", "v", "w"), {"clinic": 40, "lab": 40})


@pytest.mark.parametrize(
    ("schema", "policy", "reason"),
    [
        (MIXED, Policy(cells=5), "sums of products of labels are counts, which may not be below 5"),
        (MIXED, Policy(parameters=0.09), "a regression may have 4 parameters: the maximum is 0.09 of 40 rows"),
        (NUMBERS, Policy(parameters=0.09), "a regression may have 4 parameters: the maximum is 0.09 of 40 rows"),
    ],
)
def test_moments_from_which_counts_and_regressions_follow_are_refused(schema, policy, reason):
    spec = registry.specify("fed-pc")
    with pytest.raises(NotAllowed, match=reason):
        policy.check("clinic", spec, schema, behind_masks=False)
    replace(policy, cells=1, parameters=0.11).check("clinic", spec, schema, behind_masks=False)
    private = registry.specify("secure-sum", {}, 1.0)
    replace(policy, epsilon=2.0).check("clinic", private, NUMBERS, behind_masks=True)
    with pytest.raises(NotAllowed, match="which noise replaces only if it also limits epsilon"):
        policy.check("clinic", private, NUMBERS, behind_masks=True)


def test_tables_of_mixed_rows_obey_the_limits():
    schema = Schema(("a", "b", "dose"), {"clinic": 40, "lab": 40}, "mixed", dict.fromkeys("ab", ("x", "y", "z")))
    rng = np.random.default_rng(1)
    tables = {silo: np.column_stack([*rng.choice(3, (2, n)), rng.normal(size=n)]) for silo, n in schema.rows.items()}
    spec = AlgorithmSpec("mixed-families", mixed_families.MixedFamilies())
    start = mixed_families.start(schema, CHAIN & (np.arange(3) < 2))
    run(tables, spec, Policy(variables=2, parameters=0.2), start, schema=schema)
    with pytest.raises(NotAllowed, match="a table of 2 variables: the maximum is 1"):
        run(tables, spec, Policy(variables=1), start, schema=schema)
    search = registry.specify("secure-ges", {"mixed_score": "conditional-gaussian"})
    run(tables, search, Policy(variables=2, parameters=0.2), schema=schema)
    with pytest.raises(NotAllowed, match="a table of 2 variables: the maximum is 1"):
        run(tables, search, Policy(variables=1), schema=schema)


def test_noise_replaces_the_limits(codes):
    """Each table of a silo still has about as many rows as the silo, although all its cells are small."""
    spec = registry.specify("fed-pc", {}, 8.0)
    _, replies = run(codes, spec, Policy(cells=500, variables=1, epsilon=9.0))
    (first, *_), rows = replies, len(next(iter(codes.values())))
    pair = len(LEVELS[LABELS[0]]) * len(LEVELS[LABELS[1]])
    assert first.values[:pair].sum() == pytest.approx(rows, abs=rows / 2)


def described(tmp_path, codes, **policies):
    about = declarations({"kind": "discrete", "levels": {name: [*levels] for name, levels in LEVELS.items()}})
    services = {}
    for silo, table in codes.items():
        labels = pd.DataFrame(np.array(["x", "y", "z"])[table], columns=LABELS)
        labels.to_csv(tmp_path / f"{silo}.csv", index=False)
        services[silo] = SiloService(silo, tmp_path / f"{silo}.csv", policies.get(silo, Policy()))
        if silo in policies:
            services[silo]._guard = replace(services[silo]._guard, declared=about)
    return schema_from_descriptions(in_process_roster(InProcessTransport(services), (*codes,)), NO_DECLARATION)


def test_a_run_says_that_counts_are_suppressed_but_not_by_whom(tmp_path, codes):
    settings = LearnSettings(data=str(tmp_path))
    assert _policy_notes(settings, described(tmp_path, codes)) == ()
    assert _policy_notes(settings, described(tmp_path, codes, lab=Policy(rows=20))) == ()
    inferred = described(tmp_path, codes, lab=Policy(cells=5))
    assert _policy_notes(settings, inferred) == (SUPPRESSED_CELLS,)
    assert "lab" not in SUPPRESSED_CELLS
    assert _policy_notes(LearnSettings(data=str(tmp_path), algorithm="fed-pc", epsilon=1.0), inferred) == ()
    result = replace(RUNS["cpdag"], notes=(SUPPRESSED_CELLS,))
    assert small_cell_warnings(result) == [f"Small cells were suppressed: {SUPPRESSED_CELLS}."]
