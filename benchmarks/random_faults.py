"""Random faults: each injection draws a run, a process, a fault and a moment, and checks what is promised.

An injection starts a run of a random kind (plain, masked, private), either on this machine or over a federation with
mutual TLS whose silos reach the coordinator through a proxy. At a random moment between the start and the end of an
undisturbed run, one fault happens: a signal to a process of the run, a hung process, a cut, reset, delayed or throttled
connection, a full disk, a clock that is wrong, or a silo of another version. What has died is started again, as its
owner would, and the run is resumed, or repeated if it had nothing to resume.

`violations` has the promises that do not hold: a documented exit code and no traceback; the result of an undisturbed
run bit for bit; its ε, and no more; no half-written file; no process and no temporary file that is left.
"""

import asyncio
import random
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from fault_story import KINDS, Place, Story
from faults_federation import SILOS, Federation
from processes import PATIENCE, TRACEBACK, Program, epsilon_of, kill, until

from fedbnsl.algorithms.errors import EXIT_CODES, INVALID, UNEXPECTED
from fedbnsl.tracking.outputs import OUTPUTS
from fedbnsl.tracking.staging import LEFTOVER

SHORT = {
    kind: (*words, "-p", f"rounds={rounds}") for (kind, words), rounds in zip(KINDS.items(), (12, 6, 8), strict=True)
}
"""the kinds of runs, with few rounds, so that a night has many injections"""
SIGNALS = {"kill": signal.SIGKILL, "terminate": signal.SIGTERM, "interrupt": signal.SIGINT}
LONGEST_HANG = 8.0
"""maximum duration of a hang, a delay or an absence, in seconds; below the patience of a run"""
ATTEMPTS = 4
"""maximum number of commands until a disturbed run has finished"""
SMALL_DISKS = (0, 4_000, 60_000, 300_000, 1_000_000)
"""maximum numbers of bytes of a file on full disks"""
WRONG_CLOCKS = (-86_400.0, -3600.0, 3600.0, 86_400.0)
"""differences of wrong clocks, in seconds"""


class Proxy:
    """Passes connections on to `port` of this machine, and disturbs them on request; a thread runs it."""

    def __init__(self, port: int) -> None:
        """Listen at a free port."""
        self._target, self._pairs = port, set[asyncio.StreamWriter]()
        self._open, self._pause = True, 0.0
        self._loop = asyncio.new_event_loop()
        started = threading.Event()
        threading.Thread(target=self._run, args=(started,), daemon=True).start()
        started.wait()

    def _run(self, started: threading.Event) -> None:
        async def serve() -> None:
            server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
            self.port = int(server.sockets[0].getsockname()[1])
            started.set()
            await server.serve_forever()

        self._loop.run_until_complete(serve())

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._open:
            writer.close()
            return
        try:
            onward = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        self._pairs |= {writer, onward[1]}
        await asyncio.gather(self._pass_on(reader, onward[1]), self._pass_on(onward[0], writer))

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while content := await reader.read(1 << 14):
                await asyncio.sleep(self._pause)
                writer.write(content)
                await writer.drain()
        except OSError:
            pass
        finally:
            self._pairs.discard(writer)
            writer.close()

    def cut(self, *, reset: bool, seconds: float) -> None:
        """Close all connections, with a reset if asked, and accept no others for so many seconds."""

        def close() -> None:
            for writer in self._pairs:
                if reset:
                    raw = writer.get_extra_info("socket")
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort() if reset else writer.close()

        self._open = False
        self._loop.call_soon_threadsafe(close)
        time.sleep(seconds)
        self._open = True

    def slow(self, pause: float, seconds: float) -> None:
        """Wait `pause` seconds before each piece of 16 kB, for so many seconds."""
        self._pause = pause
        time.sleep(seconds)
        self._pause = 0.0


@dataclass
class Injection:
    """One injection: what was drawn, the exit codes of all commands, and the violated promises."""

    number: int
    where: str
    kind: str
    target: str
    fault: str
    moment: float
    """the moment of the fault, as a share of the duration of an undisturbed run"""
    codes: list[int] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def row(self) -> dict[str, str]:
        """The line of the table."""
        return {
            "number": str(self.number),
            "run": f"{self.where}, {self.kind}",
            "fault": f"{self.fault}: {self.target}",
            "at": f"{self.moment:.0%}",
            "exit codes": ", ".join(map(str, self.codes)),
            "violations": "; ".join(self.violations) or "none",
        }


def injections(place: Place, number: int, seed: int) -> Iterator[Injection]:
    """Yield `number` injections, drawn with `seed`."""
    draw = random.Random(seed)
    federation = Story(place, "federated", "private")
    over = Federation(federation)
    proxy = Proxy(over.port)
    for silo in SILOS:
        file = over.folder / silo / "silo.toml"
        file.write_text(file.read_text().replace(f":{over.port}", f":{proxy.port}"))
    worlds = {"local": Local(place), "federation": Federated(place, over, proxy)}
    for one in range(number):
        where, kind = draw.choice(list(worlds)), draw.choice(list(SHORT))
        world = worlds[where]
        target, fault, act = world.draw_fault(draw)
        injection = Injection(one, where, kind, target, fault, draw.uniform(0.0, 1.1))
        world.run(injection, act)
        yield injection


Act = Callable[[Program], None]
"""function that disturbs the run of a program, now"""


class Local:
    """Runs whose silos are workers on this machine."""

    def __init__(self, place: Place) -> None:
        """Runs of the data of `place`."""
        self.place = place
        self.surroundings: dict[str, str] = {}
        """the environment of the first command of the next run"""

    def story(self, name: str, kind: str) -> Story:
        """A run of that kind, which has not started."""
        return self.place.story(name, kind)

    def learn(self, story: Story, **surroundings: str) -> Program:
        """Start the run of `story`."""
        return story.learn(**surroundings)

    def draw_fault(self, draw: random.Random) -> tuple[str, str, Act]:
        """A process or disk of the run, the name of a fault, and the function that causes it."""
        target = draw.choice(
            ("run", "worker", "fork server", "Prefect's server", "disk of the run", "clock of the run")
        )
        if target.startswith(("disk", "clock")):
            return target, *self.of_surroundings(target, draw)
        if target == "Prefect's server":
            self.surroundings = {"PREFECT_API_URL": ""}
        fault, act = signalled(draw, lambda program: local_process(program, target, draw))
        return target, fault, act

    def of_surroundings(self, target: str, draw: random.Random) -> tuple[str, Act]:
        """A fault that holds from the start of the run."""
        if target.startswith("disk"):
            limit = draw.choice(SMALL_DISKS)
            self.surroundings = {"FILE_LIMIT": str(limit)}
            return f"files of at most {limit // 1000} kB", lambda program: None
        shift = draw.choice(WRONG_CLOCKS)
        self.surroundings = {"CLOCK_SHIFT": str(shift)}
        return f"{shift / 3600:+g} hours", lambda program: None

    def run(self, injection: Injection, act: Act) -> None:
        """Start the run, disturb it at its moment, bring it to its end, and check what is promised."""
        story = self.story(f"{injection.number:03d}", injection.kind)
        program, self.surroundings = self.learn(story, **self.surroundings), {}
        with suppress(subprocess.TimeoutExpired):
            program.wait(injection.moment * self.place.seconds[injection.kind])
        if program.process.poll() is None:
            try:
                act(program)
            except psutil.NoSuchProcess:
                pass
            except TimeoutError as error:
                injection.violations.append(str(error))
        self.settle(story, program, injection)
        check(story, injection)
        shutil.rmtree(story.folder)

    def settle(self, story: Story, program: Program, injection: Injection) -> None:
        """Resume or repeat the run until it has finished, and record the exit codes."""
        for _ in range(ATTEMPTS):
            try:
                code = program.wait(PATIENCE / 2)
            except Exception:
                injection.violations.append(f"no end within {PATIENCE / 2:.0f} s")
                program.tell(signal.SIGKILL)
                code = -signal.SIGKILL
            injection.codes.append(code)
            judge(story, program, injection)
            self.repair()
            if code == 0:
                return
            resumable = (story.out / "started.json").exists()
            program = story.resume() if resumable else self.learn(story)
        injection.violations.append(f"not finished after {ATTEMPTS} commands: {program.said()}")

    def repair(self) -> None:
        """Start again what has died."""


class Federated(Local):
    """Runs over a federation with mutual TLS."""

    def __init__(self, place: Place, over: Federation, proxy: Proxy) -> None:
        """Runs over `over`, whose silos connect through `proxy`."""
        super().__init__(place)
        self.over, self.proxy = over, proxy
        over.start()

    def story(self, name: str, kind: str) -> Story:
        """A run on the federation's rows; the ledgers and journals of earlier runs are deleted, as if new."""
        story = self.over.story(self.place.story(f"over-{name}", kind))
        noise = Path(self.over.surroundings.get("KNOWN_NOISE", story.folder / "noise"))
        shutil.rmtree(noise, ignore_errors=True)
        noise.mkdir(parents=True)
        for silo in SILOS:
            with suppress(KeyError):
                self.over.silos.pop(silo).tell(signal.SIGTERM)
            shutil.rmtree(self.over.folder / silo / ".fedbnsl", ignore_errors=True)
        self.repair()
        return story

    def learn(self, story: Story, **surroundings: str) -> Program:
        """Start the run of `story`."""
        return story.learn("--federation", self.over.file, **surroundings)

    def draw_fault(self, draw: random.Random) -> tuple[str, str, Act]:
        """A process, disk or connection of the run, the name of a fault, and the function that causes it."""
        targets = (
            "run",
            "silo",
            "version of a silo",
            "coordinator",
            "connections",
            "disk of the run",
            "clock of the run",
        )
        target = draw.choice(targets)
        if target.startswith(("disk", "clock")):
            return target, *self.of_surroundings(target, draw)
        seconds = draw.uniform(0.2, LONGEST_HANG)
        if target == "connections":
            fault = draw.choice(("cut", "reset", "delay", "throttle"))
            if fault in ("cut", "reset"):
                return target, fault, lambda program: self.proxy.cut(reset=fault == "reset", seconds=seconds)
            pause = 1.0 if fault == "delay" else 0.05
            return target, fault, lambda program: self.proxy.slow(pause, seconds)
        silo = draw.choice(SILOS)
        if target == "version of a silo":
            return target, "another protocol", lambda program: self.change_version(silo, seconds)

        def process(program: Program) -> psutil.Process:
            chosen = {"run": program, "silo": self.over.silos[silo], "coordinator": self.over.coordinator}[target]
            return psutil.Process(chosen.process.pid)

        fault, disturb = signalled(draw, process)

        def act(program: Program) -> None:
            disturb(program)
            if target != "run":
                time.sleep(seconds / 2)
                self.repair()

        return target, fault, act

    def change_version(self, silo: str, seconds: float) -> None:
        """Have a silo of another version take the place of `silo` for so many seconds.

        Raises `TimeoutError` if the coordinator does not refuse it in a line with both versions.
        """
        self.over.silos.pop(silo).tell(signal.SIGTERM)
        other = self.over.try_to_join(silo, OTHER_VERSION="1")
        until(lambda: "install one version at both" in other.log.read_text(), "the refusal of another version")
        time.sleep(seconds)
        other.tell(signal.SIGTERM)
        self.repair()

    def repair(self) -> None:
        """Start the coordinator and the silos that have died."""
        if self.over.coordinator.process.poll() is not None:
            self.over.start_coordinator()
        for silo in SILOS:
            program = self.over.silos.get(silo)
            if program is None or program.process.poll() is not None:
                self.over.join(silo)


def signalled(draw: random.Random, process: Callable[[Program], psutil.Process]) -> tuple[str, Act]:
    """A random signal, or a hang of random length, for the process that `process` finds."""
    fault, seconds = draw.choice((*SIGNALS, "hang")), draw.uniform(0.5, LONGEST_HANG)
    if fault != "hang":
        return fault, lambda program: process(program).send_signal(SIGNALS[fault])

    def hang(program: Program) -> None:
        chosen = process(program)
        chosen.suspend()
        time.sleep(seconds)
        chosen.resume()

    return fault, hang


def local_process(program: Program, target: str, draw: random.Random) -> psutil.Process:
    """The process of a run on this machine that is disturbed; the run itself if the others have not started yet."""
    run = psutil.Process(program.process.pid)
    if target == "run":
        return run
    workers = program.workers()
    if target == "worker":
        return draw.choice(workers) if workers else run
    word = "forkserver" if target == "fork server" else "prefect.server"
    servers = [child for child in run.children(recursive=True) if any(word in part for part in child.cmdline())]
    return draw.choice(servers) if servers else run


def judge(story: Story, program: Program, injection: Injection) -> None:
    """Add the violated promises about the end of one command."""
    code, text = injection.codes[-1], program.log.read_text()
    killed = injection.fault == "kill" and code == -signal.SIGKILL and len(injection.codes) == 1
    if not killed and code not in EXIT_CODES:
        injection.violations.append(f"exit code {code}: {program.said()}")
    if code == UNEXPECTED or (code == INVALID and not injection.target.startswith("disk")):
        injection.violations.append(f"exit code {code}: {program.said('error')}")
    if TRACEBACK in program.said() or "Traceback" in text:
        injection.violations.append(f"a traceback: {program.said()}")
    found = {name for name in OUTPUTS if (story.out / name).exists()}
    if found and found != set(OUTPUTS):
        injection.violations.append(f"half-written: only {', '.join(sorted(found))}")


def check(story: Story, injection: Injection) -> None:
    """Add the violated promises about the finished run."""
    if injection.codes[-1] != 0:
        return
    whole, cost = story.place.undisturbed[story.kind]
    if not (story.out / "structure.csv").exists():
        injection.violations.append("no result")
        return
    if story.found() != whole:
        injection.violations.append("other bits")
    if story.kind == "private" and abs(epsilon_of(story.files) - cost) > 1e-9:
        injection.violations.append(f"ε {epsilon_of(story.files):.4f} instead of {cost:.4f}")
    left = [one.name for one in story.out.iterdir() if LEFTOVER.fullmatch(one.name) or one.name == ".running"]
    left += [name for name in ("started.json", "checkpoint.bin") if (story.out / name).exists()]
    if left:
        injection.violations.append(f"left behind: {', '.join(left)}")
    with suppress(TimeoutError):
        until(lambda: not processes_of(story), "the end of all processes", 20.0)
    for process in processes_of(story):
        with suppress(psutil.NoSuchProcess):
            injection.violations.append(f"a process is left: {' '.join(process.cmdline())[:80]}")
        kill(process)


def processes_of(story: Story) -> list[psutil.Process]:
    """The processes that have the folder of the story among their words."""
    running = psutil.process_iter(["cmdline"])
    return [one for one in running if any(str(story.out) in word for word in one.info["cmdline"] or ())]


def summary(done: list[Injection]) -> list[dict[str, str]]:
    """A line for each fault: injections, what they led to, and violations."""
    groups: dict[tuple[str, str, str], list[Injection]] = {}
    for one in done:
        fault = one.fault if one.target.split()[0] not in ("disk", "clock") else "wrong from the start"
        groups.setdefault((one.where, one.target, fault), []).append(one)
    lines = []
    for (where, target, fault), ones in sorted(groups.items()):
        codes = sorted({one.codes[0] for one in ones})
        lines.append(
            {
                "run": where,
                "what": target,
                "fault": fault,
                "injections": str(len(ones)),
                "went on": str(sum(one.codes[0] == 0 for one in ones)),
                "resumed or repeated": str(sum(one.codes[0] != 0 and one.codes[-1] == 0 for one in ones)),
                "first exit codes": ", ".join(map(str, codes)),
                "violations": str(sum(bool(one.violations) for one in ones)),
            }
        )
    return lines
