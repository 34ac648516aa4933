"""A silo that runs obeys `silo.toml` and `about.json` as they are now, or answers nothing; never as they were."""

import re
import shutil

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.data.folder.about import declarations
from fedbnsl.tasks.silo.messages import MethodCall, unpack_answer
from fedbnsl.tasks.silo.policy import NotAllowed
from fedbnsl.tasks.silo.readers import Readers
from fedbnsl.tasks.silo.runs import RunTerms
from fedbnsl.tasks.transport.configuration import read_silo_file
from fedbnsl.tasks.transport.hosted_silo import HostedSilo

KIND = {"kind": "continuous"}


class Owned:
    """A running silo, its owner's files, and the lines of its log."""

    def __init__(self, folder):
        self.folder, self.config, self.about = folder, folder / "silo.toml", folder / "about.json"
        text = self.config.read_text().replace('level = "sums"', 'level = "trusted"')
        self.config.write_text(re.sub(r"^rows = .*$", "rows = 20", text, flags=re.MULTILINE))
        rows = np.random.default_rng(1).normal(size=(60, 2))
        np.savetxt(folder / "rows.csv", rows, delimiter=",", header="a,b", comments="")
        self.about.write_text('{"kind": "continuous"}')
        self.log, self.readers = [], Readers("clinic", 1, print)
        self.silo = HostedSilo(read_silo_file(self.config), self.readers, self.log.append)

    def set(self, old, new):
        text = self.config.read_text()
        assert old in text
        self.config.write_text(text.replace(old, new, 1))

    def ask(self, method, *arguments):
        return unpack_answer(method, self.silo.answer(MethodCall(method, arguments).pack()))

    def close(self):
        self.silo.close()
        self.readers.close()


@pytest.fixture
def owned(issued, tmp_path):
    found = Owned(shutil.copytree(issued / "clinic", tmp_path / "clinic"))
    assert found.ask("describe").rows == 60
    yield found
    found.close()


def test_a_policy_that_became_stricter_applies_to_the_next_call(owned):
    owned.set("rows = 20", "rows = 500")
    with pytest.raises(NotAllowed, match="fewer than 500"):
        owned.ask("describe")
    assert "[policy] changed, and applies from now on" in owned.log
    owned.set("rows = 500", "rows = 20")
    assert owned.ask("describe").rows == 60


def test_a_policy_applies_in_the_middle_of_a_run(owned):
    schema = Schema(("a", "b"), {"clinic": 60, "lab": 60})
    spec = registry.specify("notears-admm", {"rounds": 5})
    terms = RunTerms("run", registry.pack(spec), schema, 1, declared=declarations(KIND))
    algorithm = terms.algorithm()
    first = wire.encode(algorithm.broadcast(algorithm.open_server(schema)))
    reply = owned.ask("solve", terms, 1, first)
    owned.set("# algorithms = [", 'algorithms = ["secure-sum"] # [')
    with pytest.raises(NotAllowed, match="policy refuses notears-admm: allowed algorithms: secure-sum"):
        owned.ask("solve", terms, 1, first)
    owned.set('algorithms = ["secure-sum"] # [', "# algorithms = [")
    assert owned.ask("solve", terms, 1, first) == reply  # from the journal: the run continues


def test_a_declaration_applies_to_the_next_call(owned):
    owned.about.write_text('{"kind": "continuous", "ignore": ["b"]}')
    assert owned.ask("describe").variables == ("a",)
    assert "about.json changed, and applies from now on" in owned.log
    owned.about.unlink()
    assert owned.ask("describe").variables == ("a", "b")
    owned.set('level = "trusted"', 'level = "sums"')
    with pytest.raises(NotAllowed, match="its owner is changing its configuration"):  # level sums needs about.json
        owned.ask("describe")


def test_a_member_that_the_owner_removes_is_unknown_at_once(owned):
    line = next(line for line in owned.config.read_text().splitlines() if line.startswith('"lab"'))
    owned.set(line, "")
    owned.set("silos = 3", "silos = 1")
    schema = Schema(("a", "b"), {"clinic": 60, "lab": 60})
    terms = RunTerms("run", registry.pack(registry.specify("secure-sum")), schema, 1, declared=declarations(KIND))
    with pytest.raises(NotAllowed, match="its owner knows clinic, and lab is not among them"):
        owned.ask("admit", terms, True)


@pytest.mark.parametrize("spoil", ["silos = ", "row = 3\n", "\0"])
def test_nothing_is_answered_while_a_file_cannot_be_used(owned, spoil):
    whole = owned.config.read_text()
    owned.config.write_text(whole.replace("silos = ", spoil + "silos = ", 1))
    with pytest.raises(NotAllowed, match="silo clinic: its owner is changing its configuration"):
        owned.ask("describe")
    (line,) = [line for line in owned.log if line.startswith("error: ")]
    assert "silo.toml" in line
    assert line.endswith("no call is answered until this is mended")
    owned.config.write_text(whole)
    assert owned.ask("describe").rows == 60


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [
        ("data", '"rows.csv"', '"other.csv"'),
        ("coordinator", 'coordinator = "10', 'coordinator = "11'),
        (r"\[tls\]", 'trusted = "trusted.pem"', 'trusted = "again.pem"'),
    ],
)
def test_a_key_that_needs_a_restart_ends_the_answers_until_then(owned, key, old, new):
    shutil.copy(owned.folder / "rows.csv", owned.folder / "other.csv")
    shutil.copy(owned.folder / "trusted.pem", owned.folder / "again.pem")
    owned.set(old, new)
    with pytest.raises(NotAllowed, match="its owner has changed its configuration and must restart it"):
        owned.ask("describe")
    assert re.search(rf"silo\.toml: {key} changed: restart this silo; no call is answered before", owned.log[-2])
    owned.set(new, old)
    assert owned.ask("describe").rows == 60


@pytest.mark.parametrize("key", ["workers = 8", "memory_gigabytes = 16", "call_seconds = 3600"])
def test_a_key_that_the_next_start_applies_is_announced(owned, key):
    owned.set(f"# {key}", key[:-1] + "7")
    assert owned.ask("describe").rows == 60
    (line,) = [line for line in owned.log if "restart" in line]
    assert line.endswith(f"silo.toml: {key.split()[0]} changed: restart this silo to apply it")


def test_comments_change_nothing(owned):
    before = len(owned.log)
    owned.config.write_text(owned.config.read_text() + "# nothing\n")
    service = owned.silo._service
    assert owned.ask("describe").rows == 60
    assert owned.silo._service is service
    assert owned.log[before:] == []
