"""Sums whose difference would be a row or a silo, and answers under another name: each attack succeeded once."""

import os
from contextlib import closing
from dataclasses import fields, replace
from typing import ClassVar

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.adjustment import Adjustment
from fedbnsl.algorithms.core.schema import ImputationModel, Schema
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.resampling.bootstrap import Bootstrap
from fedbnsl.algorithms.secure import masked_round
from fedbnsl.algorithms.statistics.rows import Query
from fedbnsl.data.folder.about import NO_DECLARATION, Reading, declarations
from fedbnsl.flows.servers.supervisor import ENDED_BY_LIMIT, within_seconds
from fedbnsl.tasks.silo.guard import Guard
from fedbnsl.tasks.silo.messages import MethodCall, SiloFailed, answer, unpack_answer
from fedbnsl.tasks.silo.policy import NotAllowed, Policy
from fedbnsl.tasks.silo.rows import DescribedPooled
from fedbnsl.tasks.silo.service import MAX_OPEN_RUNS, SiloService
from fedbnsl.tasks.transport.described_schema import schema_from_descriptions
from fedbnsl.tasks.transport.federation import Patience, Roster, SecureTransport
from fedbnsl.tasks.transport.in_process import ImmediateAnswer, InProcessTransport, in_process_roster
from tests.audit.coordinator import ABOUT, ROWS, SCHEMA, SILOS, opened, sum_of, terms, write_federation, write_rows

LEVELS = {"u": ("no", "yes"), "v": ("no", "yes"), "w": ("no", "yes")}
LABELS = Schema(("u", "v", "w"), dict.fromkeys(SILOS, ROWS), "discrete", LEVELS)
OF_LABELS = {"kind": "discrete", "levels": {name: [*levels] for name, levels in LEVELS.items()}}


def numbers(silos=SILOS):
    rng = np.random.default_rng(1)
    return {silo: rng.normal(size=(ROWS, 3)) for silo in silos}


def words(silos=SILOS):
    rng = np.random.default_rng(2)
    return {silo: np.array(["no", "yes"])[rng.integers(0, 2, (ROWS, 3))] for silo in silos}


@pytest.fixture
def silos(tmp_path):
    folder = write_federation(tmp_path / "study", numbers())
    with opened(folder, SILOS) as found:
        yield found


def total(services, asked, **request):
    return np.asarray(sum_of(services, asked, **request).total, float)


def parts(first):
    """Stretches by which the first rows of silo a are apart from the others."""
    return dict.fromkeys(SILOS, (ROWS,)) | {"a": (first, ROWS - first)}


OTHER_SCHEMAS = {
    "kind": [{"kind": "time-series", "stretches": parts(2)}, {"kind": "mixed"}, {"kind": "discrete"}],
    "stretches": [{"stretches": {"a": (1, ROWS - 1)}}, {"stretches": parts(40)}, {"stretches": {"a": (ROWS,)}}],
    "condition_names": [{"condition_names": {"a": ("one", "rest")}, "stretches": {"a": (1, ROWS - 1)}}],
    "rows": [{"rows": SCHEMA.rows | {"a": ROWS - 1}}, {"rows": {"a": ROWS, "b": ROWS}}],
    "complete_rows": [{"complete_rows": True, "rows": SCHEMA.rows | {"a": ROWS - 1}}],
    "streamed": [{"streamed": ("a",)}],
    "empty": [{"empty": {"a": (1, 0, 0)}}],
    "imputation_model": [{"imputation_model": ImputationModel(covariance=np.eye(3), rows=9)}],
    "adjustment": [{"adjustment": Adjustment(difference=True)}],
    "levels": [{"levels": {"x": ("1", "2")}, "kind": "mixed"}],
    "targets": [{"targets": {"a": (("x",),)}}],
    "compares_conditions": [{"compares_conditions": True}],
    "transforms": [],  # fixed functions of the rows, each of which may be summed
    "variables": [{"variables": ("x", "x", "y")}, {"variables": ("x", "y", "name")}],
    "units": [{"units": (1.0, 3.0, 1.0)}],
    "dates": [{"dates": {"x": ("day", "2020-01-01")}}],
    "counts": [{"counts": ("x",)}],
    "derived": [{"derived": {"x": "y + z"}}],
    "skewed": [{"skewed": {"x": "log"}}],
    "unit_of": [{"unit_of": {"x": "kg"}}],
    "aside": [{"aside": {"q": "empty"}}],
    "knowledge": [],
    "independent_share": [{"independent_share": 0.0}],  # otherwise a known factor of the whole sum
    "survival": [{"survival": {"death": ("x", "y")}}, {"survival": {"death": ("name", "q")}}],
    "survival_empty": [{"survival_empty": {"a": (1, 0)}}],
}


def test_every_field_of_a_schema_is_tried():
    assert OTHER_SCHEMAS.keys() == {field.name for field in fields(Schema)}


LIES = [pytest.param(lie, id=f"{name} {at}") for name, lies in OTHER_SCHEMAS.items() for at, lie in enumerate(lies)]


@pytest.mark.parametrize("algorithm", ["secure-sum", "fed-pc"])
@pytest.mark.parametrize("lie", LIES)
def test_no_field_of_a_schema_gives_another_sum_of_the_same_rows(silos, algorithm, lie):
    """The rows are in memory from an honest run, so nothing reads and compares them again."""
    spec = registry.specify(algorithm)
    honest, asked = total(silos, terms("honest", spec)), terms("lie", spec, schema=replace(SCHEMA, **lie))
    try:
        for silo in asked.schema.silos:
            silos[silo].admit(asked, True)
        other = total(silos, asked)
    except BadInput:
        return
    if other.shape == honest.shape:  # another number of sums is another function of all rows
        np.testing.assert_allclose(other, honest, rtol=1e-6)


def test_no_silo_is_the_difference_of_sums_that_no_other_silo_knows_together(tmp_path):
    """Sums over all, over y1, y2, y3 and over z1, z2, z3: no record has all three, and the difference is x."""
    y, z = ("y1", "y2", "y3"), ("z1", "z2", "z3")
    of_all = ("x", *y, *z)
    folder = write_federation(tmp_path / "study", numbers(of_all))
    with opened(folder, of_all) as services:
        for run, silos in (("r1", of_all), ("r2", y), ("r3", z)):
            asked = terms(run, schema=Schema(SCHEMA.variables, dict.fromkeys(silos, ROWS)))
            if run == "r1":
                total(services, asked)
            else:
                with pytest.raises(NotAllowed, match="other silos than before, which were x, y1, y2, y3, z1, z2, z3"):
                    total(services, asked)


@pytest.mark.parametrize("level", ["sums", "trusted"])
@pytest.mark.parametrize(
    ("step_of", "finished", "why"),
    [
        ("P1", False, "its rows have changed since the run began"),
        ("P1", True, "fewer than 10 rows changed"),
        ("P2", False, "the run began under other terms"),
    ],
)
def test_a_row_that_changes_between_two_rounds_is_not_their_difference(tmp_path, level, step_of, finished, why):
    """Whatever the rounds are a step of, and also if that run is finished."""
    tables = words()
    folder = write_federation(tmp_path / "study", tables, OF_LABELS, LABELS.variables)
    spec, asked = registry.specify("fed-pc"), {"schema": LABELS, "about": OF_LABELS}
    query = Query("tables", np.array([[0, 1, 2]], np.int16))
    with opened(folder, SILOS, level=level) as services:
        total(services, terms("R", spec, "P1", **asked), broadcast=query)
        tables["a"][17] = np.where(tables["a"][17] == "no", "yes", "no")
        write_rows(folder, "a", tables["a"], LABELS.variables)
        for service in services.values():
            service.describe(terms("R", spec, **asked).declared)
            if finished:
                service.finish("P1")
        with pytest.raises(BadInput, match=why):
            total(services, terms("R", spec, step_of, **asked), number=2, broadcast=query)


@pytest.mark.parametrize(("policy", "level"), [({}, "sums"), ({}, "trusted"), ({"epsilon": 2e9}, "trusted")])
def test_as_good_as_no_noise_excuses_from_nothing(tmp_path, policy, level):
    folder = write_federation(tmp_path / "study", numbers())
    spec = registry.specify("secure-sum", {}, 1e9)
    fewer = Schema(SCHEMA.variables, dict.fromkeys("abc", ROWS))
    with opened(folder, SILOS, level=level, **policy) as services:
        sum_of(services, terms("run", spec))
        if policy:  # this owner declares that so little noise is enough
            sum_of(services, terms("other", spec, schema=fewer))
        else:
            with pytest.raises(NotAllowed, match="other silos than before"):
                sum_of(services, terms("other", spec, schema=fewer))


@pytest.mark.parametrize("what", ["moments", "tables", "corners", "configurations", "families", "votes", "sketches"])
@pytest.mark.parametrize("score", ["degenerate-gaussian", "conditional-gaussian"])
def test_no_answer_has_another_name(tmp_path, what, score):
    """Moments of numbers by configuration of labels left under the name of moments."""
    rng, about = np.random.default_rng(3), {"kind": "mixed", "levels": {"ill": ["no", "yes"]}}
    about["columns"] = {"x": "continuous", "y": "continuous", "ill": "discrete"}
    names, tables = ("x", "y", "ill"), {}
    for silo in SILOS:
        ill = np.array(["no", "yes"])[rng.integers(0, 2, ROWS)]
        tables[silo] = np.column_stack([*np.round(rng.normal(size=(2, ROWS)), 4).astype(str), ill])
    folder = write_federation(tmp_path / "study", tables, about, names)
    schema = Schema(names, dict.fromkeys(SILOS, ROWS), "mixed", {"ill": ("no", "yes")})
    spec = registry.specify("secure-boss", {"mixed_score": score})
    query = Query(what, np.array([[0, 1, 2]], np.int16))
    with opened(folder, SILOS) as services:
        if what == "moments" and score == "degenerate-gaussian":
            assert len(total(services, terms("run", spec, schema=schema, about=about), broadcast=query)) < 20
        else:
            with pytest.raises(BadInput, match=r"level sums allows only fixed sums|its rows cannot be used"):
                total(services, terms("run", spec, schema=schema, about=about), broadcast=query)


def test_no_unit_can_be_tried_after_another(silos):
    """A silo refuses numbers that are too large or too small for a unit."""
    for number, unit in enumerate((1.0, 0.5, 2.0**-20, 1.0)):
        asked = terms(f"run {number}", schema=replace(SCHEMA, units=(1.0, unit, 1.0)))
        if unit == 1.0:
            total(silos, asked)
        else:
            with pytest.raises(NotAllowed, match="column 'y': its unit differs from that of an earlier run"):
                total(silos, asked)


class TestHalves:
    SPEC = registry.specify("secure-sum").wrapped("bootstrap", Bootstrap(20))

    def halves(self, services, run, seed):
        return total(services, terms(run, self.SPEC, seed=seed)).reshape(-1)[20:].reshape(20, -1)

    def test_another_seed_gives_no_other_half(self, silos):
        np.testing.assert_array_equal(self.halves(silos, "one", 1), self.halves(silos, "other", 2))

    def test_after_a_change_no_half_has_the_same_places(self, tmp_path):
        """Otherwise halves differ in one row, where one of the ten rows that changed is drawn."""
        tables = numbers()
        folder = write_federation(tmp_path / "study", tables)
        with opened(folder, SILOS) as services:
            before = self.halves(services, "before", 1)
            tables["a"][:10] += 0.001
            write_rows(folder, "a", tables["a"])
            after = self.halves(services, "after", 1)
        # Halves with the same places differ by at most ten times 0.001 in each sum, and others by dozens of rows.
        assert (np.abs(after - before).max(axis=1) * len(SILOS) * ROWS / 2).min() > 0.5


def test_no_cell_is_in_a_refusal(tmp_path):
    """A transform turns codes of levels into other numbers, and the error quoted one."""
    folder = write_federation(tmp_path / "study", words(), OF_LABELS, LABELS.variables)
    spec = AlgorithmSpec("fit-tables", registry.STEPS["fit-tables"].config())
    for transform in ("log", "sqrt", "normal-scores"):
        schema = replace(LABELS, transforms={"u": transform})
        asked = terms("run", spec, schema=schema, about=OF_LABELS)
        with (
            opened(folder, SILOS, level="trusted") as services,
            pytest.raises(BadInput, match="'u' has labels, which have no transform"),
        ):
            services["a"].admit(asked, True)


@pytest.mark.parametrize("lags", [100, 118])
def test_rows_without_their_lags_do_not_count(tmp_path, lags):
    about = {"kind": "time-series", "stretches": {silo: [ROWS] for silo in SILOS}}
    folder = write_federation(tmp_path / "study", numbers(), about)
    schema = Schema(
        SCHEMA.variables, dict.fromkeys(SILOS, ROWS), "time-series", stretches=dict.fromkeys(SILOS, (ROWS,))
    )
    with opened(folder, SILOS) as services:
        asked = terms("run", registry.specify("secure-sum", {"lags": lags}), schema=schema, about=about)
        with pytest.raises(NotAllowed, match=f"the minimum is 50 rows, and {ROWS - lags} of this silo would enter"):
            services["a"].admit(asked, True)
        asked = terms("run", registry.specify("secure-sum", {"lags": 2}), schema=schema, about=about)
        services["a"].admit(asked, True)


@pytest.mark.parametrize(
    "packed", [b"", b"\xc1", b"\x80", b"\x93\xa0\x05\xc4\x00", b"\x93\xa3odd\x00\xc4\x00", b"\x93" * 2000]
)
def test_an_answer_that_is_none_is_one_line(packed):
    with pytest.raises(SiloFailed, match=r"^the answer of a silo to `describe` cannot be read"):
        unpack_answer("describe", packed)


def test_descriptions_that_do_not_fit_together_are_one_line():
    class Rogue(InProcessTransport):
        def submit(self, silo, call):
            return ImmediateAnswer(DescribedPooled(silo, Schema((), {}), ()))

    with pytest.raises(SiloFailed, match=r"^a: a description cannot be used \(ValueError\)$"):
        schema_from_descriptions(in_process_roster(Rogue({}), ("a",)), NO_DECLARATION)


def test_every_refusal_is_in_the_owners_log(silos):
    said = []
    for asked in (terms("run", schema=replace(SCHEMA, rows=SCHEMA.rows | {"a": ROWS - 1})), terms("run")):
        told = answer(silos["a"], MethodCall("admit", (asked, asked.schema != SCHEMA)).pack(), said.append)
        with pytest.raises(BadInput) as why:
            unpack_answer("admit", told)
        assert said[-1] == f"refused: {why.value}"


class TestOneRunOneSetOfTerms:
    """What a request continues began under the terms by which it is judged."""

    SPEC = registry.specify("fed-pc")
    OTHERS: ClassVar = {
        "columns": {"schema": replace(SCHEMA, variables=("y", "x", "z"))},
        "transforms": {"schema": replace(SCHEMA, transforms={"x": "normal-scores"})},
        "silos": {"schema": Schema(SCHEMA.variables, dict.fromkeys("abc", ROWS))},
        "learner": {"spec": registry.specify("secure-boss")},
        "settings": {"spec": registry.specify("fed-pc", {"alpha": 0.2})},
        "seed": {"seed": 5},
        "run": {"step_of": "another"},
    }

    @pytest.mark.parametrize("other", OTHERS)
    @pytest.mark.parametrize("restarted", [False, True])
    def test_no_round_is_under_other_terms(self, silos, other, restarted):
        total(silos, terms("run", self.SPEC))
        if restarted:
            for name, service in silos.items():
                service._terms_digests.clear()
                service._open_runs.clear()
                assert service.releases("run"), name
        asked = terms("run", **{"spec": self.SPEC} | self.OTHERS[other])
        with pytest.raises(NotAllowed, match=r"began under other terms; start a new run|other silos than before"):
            total(silos, asked, number=2, broadcast=Query("moments", exchange=1))
        total(silos, terms("run", self.SPEC), number=2, broadcast=Query("moments", exchange=1))

    def test_no_sum_is_unmasked_under_other_terms(self, silos):
        """The record would have the sums of the terms that came last."""
        masked_under = terms("run", registry.specify("secure-boss"))
        unmasked_under = terms("run", registry.specify("secure-boss"), step_of="another")

        class Swapped(SecureTransport):
            def ask(self, phase, messages):
                own = replace(self, terms=unmasked_under if phase == "unmask" else masked_under)
                return SecureTransport.ask(own, phase, messages)

        query, roster = Query("moments"), Roster(InProcessTransport(silos), SILOS, Patience(absent=60.0))
        line = Swapped(roster, masked_under, 1, wire.encode(query), None, tolerates_dropout=True)
        digest = masked_under.exchange_digest(line.broadcast, None)
        session = masked_round.session_of("run", 1, masked_round.new_attempt(), SCHEMA, digest)
        encoding = masked_round.encoding_of(masked_under.algorithm(), SCHEMA, query)
        with pytest.raises(NotAllowed, match="began under other terms"):
            masked_round.masked_round(masked_under.algorithm(), session, line, query, 0, encoding)


def test_a_coordinator_does_not_choose_among_the_files_of_an_owner(tmp_path):
    for name, rows in numbers(("p0", "p1")).items():
        (tmp_path / "rows").mkdir(exist_ok=True)
        np.savetxt(tmp_path / "rows" / f"{name}.csv", rows, delimiter=",", header="x,y,z", comments="")
    (tmp_path / "rows" / "about.json").write_text('{"kind": "continuous"}')
    guard = Guard(remote=True)
    with closing(SiloService("pooled", tmp_path / "rows", guard=guard)) as service:
        both = service.describe(declarations({}))
        assert both.rows == 2 * ROWS
        assert service.describe(declarations({}, Reading(silos=("p0",)))).rows == both.rows
    strict = replace(guard, policy=Policy(level="sums", masked=True, silos=3), declared=declarations(ABOUT))
    with closing(SiloService("pooled", tmp_path / "rows", guard=strict)) as service:
        with pytest.raises(NotAllowed, match="describes no rows of several silos together"):
            service.describe(declarations(ABOUT))
        schema = Schema(SCHEMA.variables, {"pooled": 2 * ROWS, "b": ROWS, "c": ROWS})
        with pytest.raises(BadInput, match="its rows cannot be used"):
            service.admit(terms("run", schema=schema), True)


class TestWindows:
    ABOUT: ClassVar = {"kind": "time-series", "stretches": {silo: [ROWS] for silo in SILOS}}
    SCHEMA = Schema(
        SCHEMA.variables, dict.fromkeys(SILOS, ROWS), "time-series", stretches=dict.fromkeys(SILOS, (ROWS,))
    )

    def admit(self, tmp_path, spec, **schema):
        folder = write_federation(tmp_path / "study", numbers(), self.ABOUT)
        with opened(folder, SILOS) as services:
            services["a"].admit(terms("run", spec, schema=replace(self.SCHEMA, **schema), about=self.ABOUT), True)

    @pytest.mark.parametrize(
        ("spec", "windows"),
        [
            (registry.specify("var", {"lags": "auto", "max_lags": 118}), 2),
            (AlgorithmSpec("lag-order", registry.STEPS["lag-order"].config(max_lags=100)), 20),
            (registry.specify("fed-pc", {"lags": 40}), 40),
            (registry.specify("var", {"lags": 3}).wrapped("bootstrap", Bootstrap(20, lags=0)), r"\d+"),
        ],
    )
    def test_rows_that_are_in_no_window_do_not_count(self, tmp_path, spec, windows):
        with pytest.raises(NotAllowed, match=f"the minimum is 50 rows, and {windows} of this silo would enter"):
            self.admit(tmp_path, spec)

    def test_a_season_is_a_number_of_the_coordinator(self, tmp_path):
        """With a period of all rows but one, all rows but two are their own season."""
        spec = registry.specify("var", {"lags": 1})
        self.admit(tmp_path / "without", spec)
        with pytest.raises(NotAllowed, match="the coordinator would choose a model of the empty cells, or a season"):
            self.admit(tmp_path / "with", spec, adjustment=Adjustment(period=119))


def test_draws_with_replacement_are_not_at_level_sums(silos):
    for replacement in (False, True):
        spec = registry.specify("secure-sum").wrapped("bootstrap", Bootstrap(20, replacement=replacement))
        if replacement:
            with pytest.raises(NotAllowed, match="with these settings, bootstrap sends other statistics"):
                silos["a"].admit(terms("run", spec), True)
        else:
            silos["a"].admit(terms("run", spec), True)


class TestSelections:
    """At level trusted with masks, a difference of two sums is not over the cells of one silo."""

    @pytest.fixture
    def services(self, tmp_path):
        tables = {silo: np.round(rows, 4).astype(str) for silo, rows in numbers().items()}
        tables["a"][:15, 2] = ""
        folder = write_federation(tmp_path / "study", tables, ABOUT)
        with opened(folder, SILOS, level="trusted") as found:
            yield found

    def complete(self, run, *variables, of_a=ROWS):
        schema = Schema(variables, SCHEMA.rows | {"a": of_a}, complete_rows=True)
        reading = Reading(missing="complete-rows", only=variables)
        return replace(terms(run, schema=schema), declared=declarations(ABOUT, reading))

    def test_rows_are_complete_in_the_same_columns(self, services):
        total(services, self.complete("first", "x", "y", "z", of_a=ROWS - 15))
        total(services, self.complete("again", "x", "y", "z", of_a=ROWS - 15))
        with pytest.raises(NotAllowed, match="dropped rows with an empty cell in 'x', 'y', 'z'"):
            total(services, self.complete("second", "x", "y"))

    def test_no_column_is_of_one_silo(self, services):
        asked = replace(terms("run"), declared=declarations(ABOUT, Reading(columns="union")))
        with pytest.raises(NotAllowed, match="masks do not hide a column that one silo has"):
            services["a"].admit(asked, True)


def test_runs_that_nobody_finishes_do_not_fill_the_memory(silos):
    """The journal reopens a run of which memory has nothing any more."""
    spec = registry.specify("fed-pc")
    for number in range(12):
        total(silos, terms(f"run {number}", spec))
    for service in silos.values():
        assert len(service._open_runs) == MAX_OPEN_RUNS
        assert "run 0" not in service._open_runs
    again = total(silos, terms("run 0", spec), number=2, broadcast=Query("moments", exchange=1))
    np.testing.assert_allclose(again, total(silos, terms("run 11", spec), number=1), rtol=1e-9)


def test_a_process_without_memory_ends_so_that_another_can_start():
    def answer(content):
        raise MemoryError

    child = os.fork()
    if not child:
        within_seconds(answer, 60.0, lambda line: None)(b"")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == ENDED_BY_LIMIT
