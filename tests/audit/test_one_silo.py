"""Attacks of a lying coordinator on one silo: each is refused with one line, or discloses nothing that it may not.

The first classes repeat the attacks of an audit. `TestImages` states the law behind them for every field of a request.
"""

import json
import pickle
from contextlib import closing, suppress
from dataclasses import fields, replace

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.adjustment import Adjustment
from fedbnsl.algorithms.core.experiments import Targets
from fedbnsl.algorithms.core.knowledge import Knowledge
from fedbnsl.algorithms.core.schema import ImputationModel, Schema
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.resampling.bootstrap import Bootstrap
from fedbnsl.algorithms.secure.masks import Aborted
from fedbnsl.algorithms.statistics.rows import Query
from fedbnsl.data.folder.about import Declared, Reading, declarations
from fedbnsl.tasks.silo.guard import Guard
from fedbnsl.tasks.silo.messages import MethodCall, SiloFailed, answer, unpack_answer
from fedbnsl.tasks.silo.policy import NotAllowed, Policy
from fedbnsl.tasks.silo.runs import RunTerms
from fedbnsl.tasks.silo.service import SiloService
from tests.tasks.broadcasts import first_broadcast

ROWS = 300
ABOUT = {
    "kind": "mixed",
    "ignore": ["name", "hiv"],
    "columns": {"age": "continuous"},
    "levels": {"sex": ["f", "m"], "ward": ["a", "b", "c"]},
}
LEVELS = {"sex": ("f", "m"), "ward": ("a", "b", "c")}
ROWS_ONLY = Policy(rows=50)
HONEST = Schema(("sex", "ward", "age"), {"s": ROWS, "t": 400}, "mixed", LEVELS)


def write_rows(path, seed=1, hiv_seed=2):
    """A table whose ignored columns depend on `hiv_seed` alone."""
    rng, other = np.random.default_rng(seed), np.random.default_rng(hiv_seed)
    hiv, names = other.integers(0, 2, ROWS), other.permutation(ROWS)
    lines = [
        f"p{names[i]:03d},{['no', 'yes'][hiv[i]]},{'fm'[rng.integers(2)]},{'abc'[rng.integers(3)]},{rng.normal():.6f}"
        for i in range(ROWS)
    ]
    path.write_text("name,hiv,sex,ward,age\n" + "\n".join(lines) + "\n")
    (path.parent / "about.json").write_text(json.dumps(ABOUT))


@pytest.fixture
def silo(tmp_path):
    """A function that serves the silo s, with its owner's log."""
    opened = []

    def serve(policy=ROWS_ONLY, about=ABOUT, hiv_seed=2, folder="own"):
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        write_rows(place / "rows.csv", hiv_seed=hiv_seed)
        said = []
        guard = Guard(policy, declared=declarations(about), remote=True, log=said.append)
        service = SiloService("s", place / "rows.csv", guard=guard)
        service.said = said
        opened.append(service)
        return service

    yield serve
    for service in opened:
        service.close()


def terms(schema=HONEST, algorithm="fed-pc", run="run", declared=None, **params):
    spec = algorithm if isinstance(algorithm, AlgorithmSpec) else registry.specify(algorithm, params)
    return RunTerms(run, registry.pack(spec), schema, 0, declared=declared or declarations(ABOUT))


def call(service, method, *arguments):
    """The answer to a call as bytes, as over a network; `service.said` has the owner's log."""
    return unpack_answer(method, answer(service, MethodCall(method, arguments).pack(), service.said.append))


def query(*sets):
    return wire.encode(Query("tables", np.array(sets, np.int16)))


class TestCode:
    """Nothing that arrives is interpreted as a pickle."""

    def test_a_program_is_not_run(self, silo, tmp_path):
        service, marker = silo(), tmp_path / "marker"

        class Program:
            def __reduce__(self):
                return open, (str(marker), "w")

        body = pickle.dumps((None, {"restricted": False}), protocol=0)[:-1]
        on_class = b"cfedbnsl.tasks.silo.guard\nGuard\n" + body + b"b."
        for program in (pickle.dumps(Program()), on_class, wire.encode(("solve", (pickle.dumps(Program()),)))):
            with pytest.raises(NotAllowed, match="what it received is not a call of this version"):
                unpack_answer("solve", answer(service, program, service.said.append))
        assert not marker.exists()
        assert "restricted" not in vars(Guard) or isinstance(vars(Guard)["restricted"], property)
        assert [line.partition(":")[0] for line in service.said] == ["refused"] * 3

    def test_of_an_unexpected_error_only_the_type_leaves(self):
        class Broken:
            name = "s"

            def seal(self, run):
                raise KeyError("the cell yes")

            def record_message(self, run, statistic, size):
                assert (run, statistic) == ("run", "refusals")

        said = []
        with pytest.raises(SiloFailed) as failed:
            unpack_answer("seal", answer(Broken(), MethodCall("seal", ("run",)).pack(), said.append))
        assert str(failed.value) == "silo s: KeyError; its owner sees why in the log"
        assert said == ["error: seal: KeyError: 'the cell yes'"]

    def test_a_small_message_does_not_claim_much_memory(self, silo):
        import tracemalloc

        service = silo()
        nested = b"\xdd\x00\x00\xff\xff" * 500
        claims = [b"\xdd\x7f\xff\xff\xff", nested, b"\xdf\x7f\xff\xff\xff", b"\xc7\x30\x01\x92\xdd\x7f\xff\xff\xff" * 4]
        for claim in (*claims, nested + bytes(1 << 16)):
            tracemalloc.start()
            with pytest.raises(NotAllowed):
                unpack_answer("solve", answer(service, claim))
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < 5_000_000


class TestIgnoredColumns:
    def test_are_not_described(self, silo):
        service = silo()
        for declared in (declarations({}), declarations(ABOUT), declarations({"kind": "mixed"})):
            try:
                described = call(service, "describe", declared)
            except NotAllowed:
                continue
            assert set(described.profile.columns) == {"sex", "ward", "age"}
            assert "yes" not in repr(described)
            assert "p1" not in repr(described)

    def test_cannot_be_named(self, silo):
        service = silo()
        for reading in (Reading(only=("hiv",)), Reading(transforms=(("hiv", "log"),))):
            with pytest.raises(NotAllowed, match=r"its owner's about\.json ignores column 'hiv'"):
                call(service, "describe", declarations(ABOUT, reading))
        for reading in (Reading(time=("hiv",)), Reading(by="hiv"), Reading(condition="hiv")):
            with pytest.raises(NotAllowed):
                call(service, "describe", declarations({}, reading))

    @pytest.mark.parametrize("rows", [{"s": ROWS, "b": 50, "c": 50}, {"s": ROWS}])
    @pytest.mark.parametrize("algorithm", ["fed-ges", "fed-pc", "secure-sum"])
    def test_cannot_be_learned_from(self, silo, algorithm, rows):
        levels = {"hiv": ("no", "yes"), "name": tuple(f"p{i:03d}" for i in range(ROWS))}
        schema = Schema(("hiv", "name"), rows, "discrete", levels=levels)
        service, asked = silo(), terms(schema, algorithm)
        for method, arguments in (("admit", (False,)), ("solve", (1, query([0, 1])))):
            with pytest.raises(NotAllowed, match=r"column 'hiv' is left out by --ignore|needs a secure sum"):
                call(service, method, asked, *arguments)
        assert service.said[-1].startswith("refused: silo s: ")


class TestKinds:
    def test_numbers_are_no_labels(self, silo):
        levels = LEVELS | {"age": ("0", "1")}
        with pytest.raises(NotAllowed, match="'age' has numbers"):
            call(silo(), "admit", terms(replace(HONEST, kind="discrete", levels=levels)), False)

    @pytest.mark.parametrize("about", [ABOUT, {"ignore": ["name", "hiv"]}])
    def test_labels_are_no_numbers_where_small_counts_are_hidden(self, silo, about):
        """Sums of products of indicators are counts, which `cells` would not hide."""
        service = silo(Policy(cells=5), about)
        schema = Schema(("sex",), {"s": ROWS, "t": 400}, "continuous")
        with pytest.raises(BadInput):
            call(service, "admit", terms(schema, declared=declarations(about)), False)

    def test_other_levels_are_refused(self, silo):
        for levels in (("m", "f"), ("f",), ("f", "m", "x")):
            with pytest.raises(NotAllowed, match="the levels of 'sex' are others"):
                call(silo(), "admit", terms(replace(HONEST, levels=LEVELS | {"sex": levels})), False)

    def test_a_schema_of_one_silo_does_not_replace_the_masks(self, silo):
        service = silo(about={"kind": "continuous", "ignore": ["name", "hiv", "sex", "ward"]})
        alone = Schema(("age",), {"s": ROWS}, "continuous")
        asked = terms(alone, "secure-sum", declared=Declared(), center=False)
        with pytest.raises(NotAllowed, match="needs a secure sum"):
            call(service, "solve", asked, 1, first_broadcast(asked))


class TestWrappers:
    @pytest.mark.parametrize("depth", [2, 8])
    def test_resamples_of_resamples_are_refused(self, silo, depth):
        spec = registry.specify("fed-pc")
        for _ in range(depth):
            spec = spec.wrapped("bootstrap", Bootstrap(2))
        with pytest.raises(NotAllowed, match="at most one wrapper"):
            call(silo(), "admit", terms(algorithm=spec), False)

    @pytest.mark.parametrize(("rows", "allowed"), [(ROWS // 2, True), (ROWS // 2 + 1, False)])
    def test_the_rows_of_a_resample_are_those_that_count(self, silo, rows, allowed):
        asked = terms(algorithm=registry.specify("fed-pc").wrapped("bootstrap", Bootstrap(2)))
        service = silo(Policy(rows=rows))
        if allowed:
            call(service, "admit", asked, False)
        else:
            with pytest.raises(NotAllowed, match=f"the minimum is {rows} rows, and {ROWS // 2} of this silo"):
                call(service, "admit", asked, False)

    @pytest.mark.parametrize("changed_rows", [0, 10])
    def test_seeds_of_resamples_are_the_owners(self, silo, changed_rows):
        """Two silos with the same rows and seed draw other rows, since each has a secret of its own."""
        asked = terms(algorithm=registry.specify("fed-pc").wrapped("bootstrap", Bootstrap(2)))
        replies = {
            call(silo(Policy(changed_rows=changed_rows), folder=name), "solve", asked, 1, first_broadcast(asked))
            for name in ("one", "two")
        }
        assert len(replies) == 2

    def test_no_round_beyond_those_of_the_algorithm(self, silo):
        service, asked = silo(), terms(algorithm=registry.specify("fed-ges", {"rounds": 1}))
        call(service, "solve", asked, 1, first_broadcast(asked))
        for number in (2, 0, -1, 10**9):
            with pytest.raises(NotAllowed, match="is not one of its 1 round"):
                call(service, "solve", asked, number, first_broadcast(asked))


STRANGE = ImputationModel(covariance=np.eye(4), rows=50)
CHANGES = {
    "variables": [("sex", "ward", "hiv"), ("hiv",), ("sex", "sex"), ("age",), ("age", "sex"), ("none",), ()],
    "rows": [{"s": ROWS - 1, "t": 400}, {"t": 400}, {"s": ROWS}, {"s": ROWS, "t": 1}, {"s": ROWS, "hiv": 5}, {}],
    "kind": ["continuous", "discrete", "time-series", "events"],
    "levels": [
        {},
        {"sex": ("m", "f")},
        LEVELS | {"age": ("1",)},
        LEVELS | {"hiv": ("no", "yes")},
        {"ward": ("a", "b")},
    ],
    "stretches": [{"s": (150, 150)}, {"s": (ROWS,)}, {"s": (1,) * ROWS}, {"s": (ROWS - 1,)}],
    "units": [(1.5, 1.0, 1.0, 1.0), (0.0,) * 4, (float("nan"),) * 4, (2.0,) * 4, (2.0**900,) * 4],
    "empty": [{"s": (1, 0, 0)}, {"s": (0, 0, ROWS)}],
    "complete_rows": [True],
    "streamed": [("s",), ("t",)],
    "aside": [{"hiv": "of interest"}, {"age": "names the condition of each row (--condition)"}],
    "transforms": [{"age": "log"}, {"age": "normal-scores"}, {"hiv": "log"}, {"sex": "sqrt"}],
    "counts": [("age",), ("hiv",)],
    "dates": [{"age": ("ymd", "2020-01-01")}, {"hiv": ("ymd", "2020-01-01")}],
    "derived": [{"age": "twice hiv"}],
    "skewed": [{"age": "log"}, {"hiv": "log"}],
    "unit_of": [{"age": "years"}, {"hiv": "kg"}, {"name": ""}],
    "imputation_model": [STRANGE, replace(STRANGE, screens=(np.eye(4),))],
    "knowledge": [Knowledge(required=(("sex", "age"),)), Knowledge(forbidden=(("hiv", "age"),))],
    "adjustment": [Adjustment(detrend=True), Adjustment(difference=True)],
    "targets": [{"s": (("age",),)}, {"s": (("hiv",),)}, {"t": (("age",),)}],
    "condition_names": [{"s": ("x", "y")}, {"s": ("hiv",)}],
    "compares_conditions": [True],
    "independent_share": [0.5, 0.0, float("nan")],
    "survival": [{"death": ("hiv", "age")}, {"death": ("age", "hiv")}],
    "survival_empty": [{"s": (1, 0)}, {"s": (0, ROWS)}],
}
"""by field of a schema, values that an honest coordinator would not send"""
LIES: list[tuple[str, Schema]] = [
    (f"{name} {number}", replace(HONEST, **{name: value}))
    for name, values in CHANGES.items()
    for number, value in enumerate(values)
]
REFUSALS = (BadInput, Aborted, SiloFailed)


class TestImages:
    """For every field of a request, a change is refused, or the answer is a function of what the owner allows."""

    def test_every_field_of_a_schema_is_changed(self):
        assert set(CHANGES) == {field.name for field in fields(Schema)}

    @pytest.mark.parametrize(("name", "schema"), LIES, ids=[name for name, _ in LIES])
    @pytest.mark.parametrize("algorithm", ["fed-pc", "fed-ges", "regressions"])
    def test_an_answer_does_not_depend_on_ignored_columns(self, silo, algorithm, name, schema):
        """Twin silos differ in the ignored columns only: whatever is asked, their outcomes are the same bytes."""
        spec = (
            AlgorithmSpec(algorithm, registry.entry(algorithm).config())
            if algorithm == "regressions"
            else registry.specify(algorithm)
        )
        asked, outcomes = terms(schema, spec), []
        broadcasts = [query([0, 1]), query([0, 1], [1, 2]), wire.encode(Query("moments"))]
        with suppress(Exception):  # the coordinator's own code may refuse the lie
            broadcasts.append(first_broadcast(asked))
        for hiv_seed in (2, 3):
            service, found = silo(Policy(rows=50, changed_rows=0), hiv_seed=hiv_seed, folder=str(hiv_seed)), []
            for method, arguments in (("admit", (False,)), *(("solve", (1, one)) for one in broadcasts)):
                try:
                    found.append(call(service, method, asked, *arguments))
                except REFUSALS as refusal:
                    found.append(f"{type(refusal).__name__}: {refusal}")
            outcomes.append(found)
        assert outcomes[0] == outcomes[1]
        assert not any("\n" in one for one in outcomes[0] if isinstance(one, str))

    @pytest.mark.parametrize("key", [field.name for field in fields(Declared)])
    def test_every_field_of_a_declaration_is_the_owners_or_an_option(self, silo, key):
        """With a declaration that names the ignored column wherever it can, the description does not show it."""
        lies = {
            "kind": "discrete",
            "columns": {"hiv": "discrete", "name": "discrete"},
            "levels": {"hiv": ("no", "yes")},
            "marks": {"hiv": ("yes",), "sex": ("f",)},
            "complete": ("hiv", "sex"),
            "words": {"hiv": ("yes",), "sex": ("f",)},
            "transforms": {"hiv": "log"},
            "survival": {"death": ("hiv", "age")},
            "fixed_transforms": {"hiv": "log"},
            "fixed_dates": {"hiv": ("ymd", "2020-01-01")},
            "stretches": {"s": (ROWS,)},
            "targets": {"s": ("hiv",)},
            "recode": {"s": {"hiv": {"yes": "1"}}},
            "scale": {"s": {"hiv": 2.0}},
            "rename": {"s": {"hiv": "height"}},
            "unit": {"hiv": "kg", "age": "years"},
            "join": {"both": ("hiv", "sex")},
            "sheets": {"s": "hiv"},
            "step": 2.0,
            "window": ("0", "1"),
            "reading": Reading(columns="union", learned_from=True, dates="days", missing="complete-rows"),
            "form": replace(Declared().form, separator=";"),
        }
        outcomes = []
        for hiv_seed in (2, 3):
            service = silo(Policy(rows=50), hiv_seed=hiv_seed)
            try:
                outcomes.append(
                    wire.encode(call(service, "describe", replace(declarations(ABOUT), **{key: lies[key]})))
                )
            except BadInput as refusal:
                outcomes.append(str(refusal).encode())
        assert outcomes[0] == outcomes[1]
        assert b"yes" not in outcomes[0]
        assert b"p001" not in outcomes[0]


class TestChangedRows:
    def test_no_other_request_makes_a_silo_forget_its_rows(self, silo, tmp_path):
        """The record of publications is not shortened by runs over other columns; one replaced row stays hidden."""
        service = silo(Policy())
        asked = terms(replace(HONEST, variables=("age",), levels={}, kind="continuous"))
        call(service, "solve", asked, 1, first_broadcast(asked))
        path = tmp_path / "own" / "rows.csv"
        for number in range(25):
            names = [name for place, name in enumerate(("sex", "ward")) if (number + 1) >> place & 1]
            levels = {name: LEVELS[name] for name in names}
            if names:
                other = terms(Schema(tuple(names), HONEST.rows, "discrete", levels), run=f"flush {number}")
                call(service, "solve", other, 1, query([0, -1]))
        service.close()
        lines = path.read_text().splitlines()
        lines[17] = lines[17].rpartition(",")[0] + ",9.999999"
        path.write_text("\n".join(lines) + "\n")
        guard = Guard(Policy(), declared=declarations(ABOUT), remote=True, log=lambda line: None)
        with closing(SiloService("s", path, guard=guard)) as again:
            again.said = []
            with pytest.raises(NotAllowed, match="fewer than 10 rows changed since an earlier publication"):
                call(again, "admit", replace(asked, run_id="day 2"), False)


def test_the_types_of_targets_are_those_of_a_schema():
    """The lies above have the types of the fields, so that they are not refused for their form alone."""
    packed = wire.encode(replace(HONEST, targets={"s": (("age",),)}))
    assert wire.decode(Schema, packed).targets == {"s": (("age",),)}
    assert Targets == tuple[tuple[str, ...], ...]
