"""Faults of a federation over TLS: coordinator and silos are processes, started as their owners start them."""

import re
import shutil
import signal
import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace

from fault_story import Fault, Place, Story
from processes import Program, epsilon_of, free_port, until

SILOS = ("silo-1", "silo-2", "silo-3")


class Federation:
    """A coordinator and its silos, whose rows are those of `story`."""

    def __init__(self, story: Story, name: str = "federation") -> None:
        """Make certificates and files; nothing is started."""
        self.home, self.folder = story.place.home, story.folder / name
        self.port, self.silos = free_port(), dict[str, Program]()
        words = ("federation", "init", self.folder, "--silos", ",".join(SILOS), "--address", f"127.0.0.1:{self.port}")
        assert self.home.start(*words).wait() == 0
        self.surroundings = story.surroundings
        for silo in SILOS:
            shutil.copy(story.data / f"{silo}.csv", self.folder / silo / "rows.csv")
            config = self.folder / silo / "silo.toml"
            config.write_text(config.read_text().replace('level = "sums"', 'level = "trusted"'))
        self.file = self.folder / "coordinator" / "federation.toml"
        shutil.copy(story.data / "truth.csv", self.file.parent)
        for folder in (self.file.parent, *(self.folder / silo for silo in SILOS)):
            (folder / "about.json").write_text('{"kind": "continuous"}')

    def start(self) -> None:
        """Start the coordinator and all silos."""
        self.start_coordinator()
        for silo in SILOS:
            self.join(silo)

    def start_coordinator(self) -> None:
        """Start the coordinator."""
        program = self.coordinator = self.home.start("coordinator", "start", "--federation", self.file)
        until(lambda: "listening" in program.log.read_text(), "the coordinator")

    def join(self, silo: str) -> None:
        """Start the process of `silo`, and wait until it has joined."""
        self.silos[silo] = self.try_to_join(silo)
        program = self.silos[silo]
        until(lambda: "joined" in program.log.read_text() or program.process.poll() is not None, f"{silo} to join")
        assert program.process.poll() is None, program.log.read_text()

    def try_to_join(self, silo: str, folder: str = "", **surroundings: str) -> Program:
        """Start a process that wants to be `silo`, with the certificates in `folder`."""
        config = self.folder / (folder or silo) / "silo.toml"
        return self.home.start("silo", "start", "--config", config, "--name", silo, **self.surroundings | surroundings)

    def kill(self, silo: str) -> None:
        """Send SIGKILL."""
        self.silos.pop(silo).tell(signal.SIGKILL)

    def policy(self, silo: str, line: str) -> None:
        """Write a line into the owner's policy, and restart the silo."""
        file = self.folder / silo / "silo.toml"
        file.write_text(re.sub(r"\[policy\]\n(epsilon = .*\n)?", f"[policy]\n{line}\n", file.read_text()))
        self.kill(silo)
        self.join(silo)

    def story(self, story: Story) -> Story:
        """`story` as one of a run over this federation."""
        story.source = self.file.parent
        story.files = {silo: self.folder / silo / "rows.csv" for silo in SILOS}
        return story


def federation(place: Place) -> Iterator[Fault]:
    """Strangers, silos and a coordinator that die, and an owner who refuses."""
    first = Story(place, "federation", "private")
    over = Federation(first)
    over.start()
    yield from strangers(over, first)
    told = over.story(place.story("masked-federation", "masked"))
    program = told.learn("--federation", over.file)
    program.at_round(told.out, 4)
    over.kill("silo-2")
    over.join("silo-2")
    told.add("a silo of a federation", "kill -9 in round 5 (masked), started again", program, "round")
    yield from told.end()
    yield from scheduler(over, place)
    yield from refusal(over, place)


def strangers(over: Federation, story: Story) -> Iterator[Fault]:
    """The workers that are refused."""
    other = Federation(story, "other")
    file = other.folder / "silo-1" / "silo.toml"
    file.write_text(file.read_text().replace(f":{other.port}", f":{over.port}"))
    yield kept_out("a second worker under one name", "`silo start` while it is there", over.try_to_join("silo-1"))
    program = over.try_to_join("silo-1", "silo-2")
    yield Fault(
        "another silo's certificate", "`silo start --name silo-1` with silo-2's", program.wait(), program.said()
    )
    yield kept_out("another federation's certificate", "`silo start`", other.try_to_join("silo-1"))
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(("127.0.0.1", over.port), timeout=10) as plain:
            context.wrap_socket(plain).recv(1)
        said = "LET IN"
    except (ssl.SSLError, ConnectionError) as error:
        said = str(error)
    yield Fault("no certificate", "a TLS client without one, at the coordinator's socket", "–", said)


def kept_out(name: str, done: str, program: Program) -> Fault:
    """The fault of a refused worker, which tries again until it is told to end."""
    until(lambda: "cannot join" in program.log.read_text() or program.process.poll() is not None, name)
    said = program.said("cannot join")
    trying = program.process.poll() is None
    code = program.tell(signal.SIGTERM) if trying else program.wait()
    return Fault(name, done, f"tries again; {code} at SIGTERM" if trying else code, said)


def scheduler(over: Federation, place: Place) -> Iterator[Fault]:
    """The federation's coordinator dies; the silos wait for the next one."""
    story = over.story(place.story("scheduler", "masked"))
    program = story.learn("--federation", over.file, "--silo-patience", "5")
    program.at_round(story.out, 3)
    over.coordinator.tell(signal.SIGKILL)
    story.add("the federation's coordinator", "kill -9 after round 3", program)
    over.kill("silo-3")
    over.start_coordinator()
    story.refused_resume("a silo of a federation away at `--resume`", "silo-3 killed, coordinator started again")
    over.join("silo-3")
    story.add("– then", "silo-3 started again, `--resume`", story.resume(), "round")
    yield from story.end()


def refusal(over: Federation, place: Place) -> Iterator[Fault]:
    """An owner first allows less than the run requests, then enough; then its silo is killed during the run."""
    story = over.story(place.story("policy", "private"))
    over.policy("silo-3", "epsilon = 0.5")
    story.add("a policy's refusal", "silo-3 allows ε 0.5, the run asks for 8", story.learn("--federation", over.file))
    yield replace(story.faults.pop(), bits="no result", epsilon=f"{epsilon_of(story.files):.4f} (0.0000)")
    over.policy("silo-3", "epsilon = 9.0")
    program = story.learn("--federation", over.file)
    program.at_round(story.out, 5)
    over.kill("silo-1")
    over.join("silo-1")
    story.add("a silo of a federation, private", "kill -9 after round 5, started again", program, "round")
    yield from story.end()
