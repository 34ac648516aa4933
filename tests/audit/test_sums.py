"""Attacks of a lying coordinator on masked sums of four silos with the files of `fedbnsl federation init`.

Two sums over different silos, entries of a single silo in a sum, and the law of level `sums` for all algorithms.
"""

from contextlib import closing, suppress
from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.protocol import Replies
from fedbnsl.algorithms.core.release import FIXED_SUMS, STATISTICS, statistic_of
from fedbnsl.algorithms.core.spec import AlgorithmSpec
from fedbnsl.algorithms.diagnosis.exchange import Diagnosis
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.resampling.bootstrap import Bootstrap
from fedbnsl.algorithms.resampling.held_out import Broadcast, HeldOut
from fedbnsl.data.folder.about import declarations
from fedbnsl.tasks.silo import journal
from fedbnsl.tasks.silo.messages import MethodCall, answer, unpack_answer
from fedbnsl.tasks.silo.policy import NotAllowed
from fedbnsl.tasks.silo.private_folder import BadRecord
from fedbnsl.tasks.silo.service import SiloService
from fedbnsl.tasks.transport.configuration import read_silo_file
from tests.audit.coordinator import ABOUT, ROWS, SCHEMA, SILOS, opened, sum_of, terms, write_federation


@pytest.fixture(scope="module")
def issued(tmp_path_factory):
    """The folder of a federation whose owners declare numbers."""
    rng = np.random.default_rng(1)
    tables = {silo: rng.normal(size=(ROWS, 3)) for silo in SILOS}
    return write_federation(tmp_path_factory.mktemp("sums") / "study", tables)


@pytest.fixture(params=["sums", "trusted, masked"])
def services(issued, request):
    """The services of all silos, at level sums and at level trusted with masked = true."""
    for silo in SILOS:
        for record in (issued / silo / ".fedbnsl").glob("*"):
            record.unlink()
    with opened(issued, SILOS, level=request.param.split(",")[0]) as found:
        yield found


@pytest.mark.parametrize("first", [None, "d"])
@pytest.mark.parametrize(
    ("run", "step_of", "finished"),
    [("run", "", False), ("run", "", True), ("again", "run", False), ("again", "run", True), ("other", "", False)],
)
def test_two_sums_that_differ_in_one_silo_are_not_to_be_had(services, run, step_of, finished, first):
    """Their difference is that silo. Neither the end of the run nor another run id is another permission."""
    assert set(sum_of(services, terms("run"), silent=first).silos) == set(SILOS) - {first}
    if finished:
        for service in services.values():
            service.finish("run")
    second = None if first else "d"
    with pytest.raises(BadInput, match=r"other silos than before|another sum of round 1|was answered for another"):
        sum_of(services, terms(run, step_of=step_of), silent=second)


def test_another_round_of_a_run_is_no_other_permission(services):
    spec = registry.specify("fed-pc")
    sum_of(services, terms("run", spec))
    with pytest.raises(NotAllowed, match="other silos than before"):
        sum_of(services, terms("run", spec), number=2, silent="d")


def test_a_number_of_one_silo_is_in_no_sum(services):
    spec = registry.specify("secure-sum").wrapped("held-out", HeldOut())
    with suppress(NotAllowed):  # level sums refuses the wrapper altogether
        total = np.asarray(sum_of(services, terms("probe", spec)).total)
        probe = Broadcast(
            wire.encode(registry.build(registry.specify("secure-sum")).broadcast_type(np.empty(0))),
            total,
            np.ones(4, bool),
        )
        with pytest.raises(NotAllowed, match="figures of this silo alone"):
            sum_of(services, terms("probe", spec), number=2, broadcast=probe)


def test_a_diagnosis_without_figures_is_allowed_and_with_them_is_not(services):
    for own_figures in (False, True):
        asked = terms(f"run {own_figures}", AlgorithmSpec("diagnosis", Diagnosis(masked=True, own_figures=own_figures)))
        if own_figures and services["a"]._policy.level == "sums":
            with pytest.raises(NotAllowed, match="level sums allows only masked sums of moments and counts"):
                services["a"].admit(asked, True)
            continue
        total = sum_of(services, asked).total
        assert len(total) == 1 + 3 + 6
    if services["a"]._policy.level != "sums":
        algorithm = asked.algorithm()
        server = algorithm.aggregate(algorithm.open_server(SCHEMA), Replies(SILOS, total=np.asarray(total, float)))
        with pytest.raises(NotAllowed, match="figures of this silo alone"):
            sum_of(services, asked, number=2, broadcast=algorithm.broadcast(server))


class TestLevelSums:
    """Whatever is asked for, what leaves is a masked sum of a fixed function of the rows."""

    @pytest.fixture
    def silo(self, issued):
        file = read_silo_file(issued / "a" / "silo.toml")
        with closing(SiloService("a", file.data, guard=file.guard(lambda line: None))) as service:
            yield service

    def test_every_algorithm_and_step_is_allowed_or_refused_as_its_entry_states(self, silo):
        for name, entry in {**registry.ALGORITHMS, **registry.STEPS}.items():
            for epsilon in (0.0, 2.0):
                settings = entry.config()
                if epsilon:
                    if not hasattr(settings, "epsilon"):
                        continue
                    settings = replace(settings, epsilon=epsilon)
                spec = AlgorithmSpec(name, settings)
                algorithm = registry.build(spec) if not entry.pooled else None
                if algorithm is None or algorithm.summand is None:
                    continue
                allowed = entry.at_sums is not None and registry.at_sums(spec) == spec  # whatever its ε is
                if allowed:
                    silo.admit(terms(name, spec), True)
                else:
                    with pytest.raises(NotAllowed, match="level sums allows only masked sums"):
                        silo.admit(terms(name, spec), True)
                with pytest.raises(NotAllowed):
                    silo.admit(terms(name, spec), False)

    def test_settings_that_send_more_are_refused(self, silo):
        spec = registry.specify("secure-linear")
        with pytest.raises(NotAllowed, match="with these settings"):
            silo.admit(terms("run", spec), True)
        silo.admit(terms("run", registry.at_sums(spec)), True)
        silo.admit(terms("run", registry.at_sums(spec).wrapped("bootstrap", Bootstrap(2))), True)

    def test_a_broadcast_that_asks_for_more_is_refused_whatever_the_settings_are(self, issued):
        """The kind of statistic follows from the broadcast itself."""
        spec = registry.at_sums(registry.specify("secure-linear"))
        asked, algorithm = terms("run", spec), registry.build(spec)
        contrasts = algorithm.broadcast_type(np.array([[0, 1]], np.int32), np.eye(3), np.array([0.5]))
        assert statistic_of(algorithm.releases, contrasts) not in FIXED_SUMS
        refused = pytest.raises(NotAllowed, match=r"not one of its|level sums allows only fixed sums")
        with opened(issued, SILOS) as services, refused:
            sum_of(services, asked, broadcast=contrasts)

    def test_nothing_is_described_but_names_and_the_number_of_rows(self, silo):
        described = silo.describe(declarations(ABOUT))
        assert described.rows == ROWS
        assert {(column.numbers, column.size, column.distinct) for column in described.profile.columns.values()} == {
            (0, None, 0)
        }


def test_every_kind_of_statistic_is_explained():
    assert all(STATISTICS.values())


class TestStatement:
    """The lines of the disclosure statement are the silo's own record."""

    def reopened(self, service):
        service.close()
        return SiloService(service.name, service._source, guard=service._guard)

    def test_it_survives_a_restart_and_the_end_of_the_run(self, services):
        sum_of(services, terms("run"))
        statement = services["a"].releases("run")
        assert {line.statistic for line in statement} == {"moments", "masked messages"}
        assert all(line.times and line.bytes for line in statement)
        services["a"] = self.reopened(services["a"])
        assert services["a"].releases("run") == statement
        sum_of(services, terms("run"))  # the same round again: the same reply leaves again
        twice = services["a"].releases("run")
        assert [replace(line, times=0, bytes=0) for line in twice] == [
            replace(line, times=0, bytes=0) for line in statement
        ]
        assert all(now.times > before.times for now, before in zip(twice, statement, strict=True))
        services["a"].finish("run")
        services["a"] = self.reopened(services["a"])
        assert services["a"].releases("run") == twice

    def test_a_record_that_is_full_stops_whatever_would_leave(self, services, monkeypatch):
        sum_of(services, terms("run"))
        monkeypatch.setattr(journal, "MAX_LINES", 2)
        with pytest.raises(BadRecord, match=r"the record of what left this silo is full.*fedbnsl silo forget"):
            sum_of(services, terms("other"))

    def test_runs_that_a_coordinator_invents_claim_no_memory(self, services):
        service = services["a"]
        sizes = [
            len(answer(service, MethodCall(method, (f"invented {number}",)).pack()))
            for number in range(50)
            for method in ("charges", "seal", "releases", "finish")
        ]
        assert service._gate._lines.keys() <= {""}
        sum_of(services, terms("run"))
        (records,) = [line for line in service.releases("run") if line.statistic == "records"]
        assert records.times == len(sizes) * 3 // 4  # `finish` answers nothing
        assert records.bytes < sum(sizes)

    def test_a_refusal_is_a_line_too(self, services):
        refused = answer(services["a"], MethodCall("admit", (terms("run"), False)).pack())
        with pytest.raises(NotAllowed) as why:
            unpack_answer("admit", refused)
        sum_of(services, terms("run"))
        (line,) = [line for line in services["a"].releases("run") if line.statistic == "refusals"]
        assert (line.times, line.bytes) == (1, len(str(why.value).encode()))
