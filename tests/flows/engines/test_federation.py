"""A federation over TLS: who may connect, what silos refuse, and what a run does without one of them."""

import contextlib
import html
import socket
import ssl
from pathlib import Path

import numpy as np
import pytest

from fedbnsl.algorithms.core.protocol import SiloLost
from fedbnsl.algorithms.errors import BadInput, SilosUnavailable
from fedbnsl.data.folder.folder import silo_files, write_folder
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.flows.cli.main import main
from fedbnsl.flows.engines.resuming import resume_settings
from fedbnsl.flows.engines.run_context import RunContext
from fedbnsl.flows.learn import learn, learn_flow
from fedbnsl.flows.options.learn import LearnSettings
from fedbnsl.tasks.silo.messages import MethodCall
from fedbnsl.tasks.silo.policy import UNRESTRICTED, NotAllowed, Policy
from fedbnsl.tasks.transport.channel import connect_to_coordinator, serve_silo
from fedbnsl.tasks.transport.configuration import read_federation_file
from tests.flows.owners import identity, owners_of
from tests.flows.test_learn import SETTINGS, inline, same
from tests.tasks.transport.test_bad_certificates import DAY, NOW, reissue


@pytest.fixture(scope="module")
def owners(tmp_path_factory):
    """Four running silos, of 100, 60, 40 and 50 rows; every test leaves them as it found them."""
    place = tmp_path_factory.mktemp("federation")
    data = homogeneous(variables=5, silos=4, rows=100, seed=1)
    rows = {"silo-1": 100, "silo-2": 60, "silo-3": 40, "silo-4": 50}
    tables = {silo: data.tables[silo][: rows[silo]] for silo in rows}
    write_folder(place / "data", type(data)(data.schema.__class__(data.schema.variables, rows), tables, data.truth))
    with owners_of(silo_files(place / "data"), place / "federation") as found:
        (found.file.parent / "truth.csv").write_bytes((place / "data" / "truth.csv").read_bytes())
        (found.file.parent / "about.json").write_text('{"kind": "continuous"}')
        yield found


@pytest.fixture
def settings(server, owners, tmp_path):
    """A function that gives the settings of a run over them."""

    def settings(**more):
        told = {"data": str(owners.file.parent), "federation": str(owners.file), "silo_patience": 2}
        return LearnSettings(**{**SETTINGS, **told, "out": str(tmp_path / "out"), **more})

    return settings


def address(owners):
    return owners.where.host, owners.where.port


def greeted(where, context):
    """Whether the port at `where` answers after a TLS handshake with `context`."""
    try:
        with socket.create_connection(where, timeout=10) as plain, context.wrap_socket(plain) as wrapped:
            wrapped.settimeout(3)
            return bool(wrapped.recv(1))
    except (ssl.SSLError, ConnectionError):
        return False


def context_of(files=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if files is not None:
        context.load_cert_chain(files.certificate, files.key)
    return context


def test_whoever_has_no_certificate_of_this_federation_is_refused_at_the_socket(owners, tmp_path):
    main_init(tmp_path / "other")
    mine = identity(owners.folder / "silo-1", "silo-1")
    stranger = identity(tmp_path / "other" / "coordinator", "coordinator")
    assert greeted(address(owners), context_of(mine))
    for context in (context_of(), context_of(stranger)):
        assert not greeted(address(owners), context)
    with socket.create_connection(address(owners), timeout=10) as plain:
        plain.sendall(b"hello, in plain")
        plain.settimeout(5)
        with contextlib.suppress(ConnectionError):
            assert plain.recv(100)[:1] in (b"", b"\x15")  # the end, or TLS's own alert


def main_init(folder):
    with pytest.raises(SystemExit) as left:
        main(["federation", "init", str(folder), "--silos", "silo-1", "--address", "127.0.0.1:1"])
    assert left.value.code == 0


def test_a_silo_of_another_federation_says_why_it_cannot_join(owners, tmp_path):
    main_init(tmp_path / "other")
    stranger, said = identity(tmp_path / "other" / "silo-1", "silo-1"), []
    knocking = owners.begin(serve_silo("silo-1", owners.where, stranger, bytes, said.append, 0.1))
    owners.wait_for(lambda: said)
    owners.end(knocking)
    assert said[0].startswith(f"silo silo-1 cannot join {owners.where.tls}: ")
    assert "certificate" in said[0]


def test_the_process_of_a_silo_listens_nowhere(owners):
    """All its connections are to the coordinator, so nobody can call it but through the coordinator."""
    listening = {line.split()[1] for line in Path("/proc/self/net/tcp").read_text().splitlines() if " 0A " in line}
    inodes = {path.readlink().name for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}
    own = [
        line.split()[1]
        for line in Path("/proc/self/net/tcp").read_text().splitlines()
        if " 0A " in line and f"socket:[{line.split()[9]}]" in inodes
    ]
    assert listening
    assert [int(one.split(":")[1], 16) for one in own].count(owners.where.port) == 1
    assert len(own) == 1


def test_nothing_is_printed_of_a_coordinator_that_dies(tmp_path, capfd):
    (tmp_path / "silo-1.csv").write_text("a,b\n1,2\n2,3\n")
    with owners_of({"silo-1": tmp_path / "silo-1.csv"}, tmp_path / "federation") as found:
        file = read_federation_file(found.file)
        capfd.readouterr()
        with connect_to_coordinator(file) as transport:
            assert transport.present() == ("silo-1",)
            found.end(found.relay)
            found.wait_for(lambda: transport.present() == ())
            with pytest.raises(SiloLost, match="the connection to the coordinator was lost"):
                transport.submit("silo-1", MethodCall("charges")).result(10)
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow(60)
def test_a_silo_that_dies_in_a_masked_round_and_comes_back_gives_the_same_bits(owners, settings, tmp_path):
    data = owners.files["silo-1"].parent
    whole = learn(settings(out=str(tmp_path / "whole"), secure=True))
    assert np.array_equal(whole.result.structure.adjacency, inline(data).structure.adjacency)

    def restart(heard):
        if heard.round.number == 2:
            owners.kill("silo-2")
            owners.join("silo-2")

    again = learn_flow(RunContext((restart,)))(settings(out=str(tmp_path / "again"), secure=True))
    assert again.result.structure.weights.tobytes() == whole.result.structure.weights.tobytes()
    assert again.result.outcome == whole.result.outcome


@pytest.fixture
def strict(owners):
    """Have the owner of silo 2 allow little for a while."""

    def strict(policy):
        owners.kill("silo-2")
        owners.policies["silo-2"] = policy
        owners.join("silo-2")

    yield strict
    strict(UNRESTRICTED)


def test_a_run_that_one_owner_refuses_is_refused_at_both_ends_and_nothing_is_spent(owners, settings, strict, tmp_path):
    strict(Policy(epsilon=0.5))
    with pytest.raises(NotAllowed, match="silo silo-2: its owner's policy refuses secure-sum: its ε is"):
        learn(settings(algorithm="secure-sum", params={}, epsilon=1.0))
    assert not (tmp_path / "out").exists()
    assert "refused: silo silo-2: its owner's policy refuses secure-sum" in owners.said[-1]
    assert all(not service.charges() for service in owners.services.values())


def test_a_refused_step_costs_that_part_and_not_the_run(settings, strict):
    strict(Policy(steps=("refit",)))
    result = learn(settings()).result
    assert result.outcome == "out of rounds"
    assert "step regressions is not allowed; allowed steps: refit" in result.parameters.how
    assert [finding.name for finding in result.diagnosed.findings] == ["not diagnosed"]


def test_a_run_ends_with_a_warning_about_a_certificate_that_expires(server, owners, tmp_path, capsys):
    until = NOW + 20.5 * DAY
    before = [file.read_bytes() for file in sorted((owners.folder / "silo-4").glob("*.pem"))]
    reissue(owners.folder, "silo-4", (NOW - DAY, until))
    owners.kill("silo-4")
    owners.join("silo-4")
    words = ["learn", "--federation", str(owners.file), "-a", "secure-sum", "--out", str(tmp_path / "out"), "--quiet"]
    with pytest.raises(SystemExit) as left:
        main(words)
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == (
        f"warning: the certificate of 'silo-4' expires on {until:%Y-%m-%d}, in 20 days; `fedbnsl federation renew "
        "FOLDER --members 'silo-4'` renews it"
    )
    assert left.value.code == 0
    assert last.removeprefix("warning: ") in html.unescape((tmp_path / "out" / "report.html").read_text())
    for file, content in zip(sorted((owners.folder / "silo-4").glob("*.pem")), before, strict=True):
        file.write_bytes(content)
    owners.kill("silo-4")
    owners.join("silo-4")


def interrupted(settings):
    def stop(heard):
        if heard.round.number == 2:
            raise KeyboardInterrupt

    with pytest.raises(BaseException):  # noqa: B017, PT011 - however Prefect hands it on
        learn_flow(RunContext((stop,)))(settings)


@pytest.mark.slow
def test_an_interrupted_run_goes_on_only_with_the_silos_and_the_rows_it_began_with(owners, settings, tmp_path):
    interrupted(settings())
    resumed = resume_settings(tmp_path / "out")
    rows = owners.files["silo-3"].read_text()
    head, first, rest = rows.split("\n", 2)
    owners.kill("silo-3")
    try:
        with pytest.raises(SilosUnavailable, match=r"no worker hosts silo-3 \(available: silo-1, silo-2, silo-4\)"):
            learn(resumed)
        owners.files["silo-3"].write_text(f"{head}\n{first.replace('1', '2')}\n{rest}")
        owners.join("silo-3")
        with pytest.raises(BadInput, match="silo silo-3 has different rows than when the run began"):
            learn(resumed)
    finally:
        owners.files["silo-3"].write_text(rows)
        if "silo-3" not in owners.serving:
            owners.join("silo-3")
    assert same(learn(resumed).result, inline(owners.files["silo-3"].parent))


@pytest.mark.slow
def test_a_silo_that_is_away_at_the_start_is_waited_for_or_left_out_by_a_quorum(owners, settings, tmp_path):
    owners.kill("silo-3")
    try:
        with pytest.raises(SilosUnavailable, match="no worker hosts silo-3"):
            learn(settings(silo_patience=1))
        with pytest.raises(SilosUnavailable, match="4 of 4 are needed"):
            learn(settings(silo_patience=1, quorum=4))
        result = learn(settings(silo_patience=1, quorum=3)).result
    finally:
        owners.join("silo-3")
    assert result.schema.silos == ("silo-1", "silo-2", "silo-4")
    assert "silo-3 did not connect: learned without it" in result.notes
    named = learn(settings(out=str(tmp_path / "two"), silos=("silo-1", "silo-2", "silo-4"))).result
    assert same(result, named)


@pytest.mark.slow
def test_a_run_goes_on_while_a_quorum_is_left_and_ends_with_a_code_of_its_own_below_it(
    owners, settings, capsys, monkeypatch, tmp_path
):
    killed = []

    def kill(heard):
        if heard.round.number == 1 and not killed:
            killed.append(owners.kill("silo-4"))

    words = ["learn", "--federation", owners.file, "--silo-patience", "1", "-a", "secure-sum", "--epsilon", "8"]
    try:
        monkeypatch.setattr("fedbnsl.flows.terminal.summary.progress_bar", lambda name: contextlib.nullcontext(kill))
        for quorum, code in ((4, 3), (3, 0)):
            with pytest.raises(SystemExit) as left:
                main([*map(str, words), "--quorum", str(quorum), "--out", str(tmp_path / f"q{quorum}")])
            said = capsys.readouterr().err.splitlines()
            assert left.value.code == code, said
            if code:
                assert said[-1].startswith("error: silo-4 did not respond and the run stopped")
            owners.join("silo-4")
            killed.clear()
    finally:
        if "silo-4" not in owners.serving:
            owners.join("silo-4")
