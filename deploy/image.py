"""Build the image of `Containerfile`, and check a container of it: `python3 deploy/image.py`, or `make image`.

With docker, podman or buildah, the image is built, and a container runs as the user of the image, without capabilities
and with a root file system that is read-only. Elsewhere, root executes the same instructions in a chroot: its programs
and Python are those of this machine, mounted read-only, and everything that the instructions write is in memory. Either
way `CHECK` then runs as the user of the image: the program learns, a run is audited, and the image's own health check
fails before the coordinator starts and passes while it runs. Exit code 1 if a step fails, 2 if neither is possible.
"""

import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
TAG, WRITABLE = "localhost/fedbnsl:check", ("/tmp", "/work")
BUILDERS = ("docker", "podman", "buildah")
CONFINED = ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
CHECK = """
set -eu
test "$(id -u)" -ne 0
cd "$(mktemp -d)"
fedbnsl prepare homogeneous rows --variables 4 --silos 3 --rows 100 --seed 1
fedbnsl learn rows --engine inline --out run
fedbnsl audit run
fedbnsl federation init study --silos a,b,c --address "$(hostname):$HEALTH_PORT"
if "$@" 2> /dev/null; then echo "healthy before the start" >&2; exit 1; fi
fedbnsl coordinator start --federation study/coordinator/federation.toml &
seconds=0
until "$@" 2> /dev/null; do
    seconds=$((seconds + 1))
    test "$seconds" -lt 60
    sleep 1
done
echo "healthy after $seconds s"
kill $!
"""
"""what runs in the container; its arguments are the command of the health check"""


@dataclass(frozen=True)
class Instruction:
    """An instruction of a Containerfile: its name and the rest of its logical line."""

    name: str
    rest: str


def instructions(text: str) -> Iterator[Instruction]:
    """The instructions of a Containerfile; continued lines are joined, and comments left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            yield Instruction(name, rest.strip())


def health_command(text: str) -> list[str]:
    """The command of the health check of a Containerfile, in its JSON form."""
    (check,) = (one.rest for one in instructions(text) if one.name == "HEALTHCHECK")
    return [str(word) for word in json.loads(check.partition("CMD ")[2])]


def builder() -> str | None:
    """The first builder that works here: docker needs a daemon."""
    for name in BUILDERS:
        if shutil.which(name) and subprocess.run([name, "info"], capture_output=True, check=False).returncode == 0:
            return name
    return None


def build_and_check(name: str, health: list[str], version: str) -> None:
    """Build the image with the builder `name`, and run `CHECK` in a container; raises `CalledProcessError`."""
    arguments = ["--build-arg", f"VERSION={version}", "--file", str(CONTAINERFILE), "--tag", TAG, str(ROOT)]
    call(name, "build", *arguments)
    check = ("sh", "-c", CHECK, "sh", *health)
    if name == "buildah":
        made = subprocess.run([name, "from", TAG], check=True, capture_output=True, text=True).stdout.strip()
        try:
            call(name, "run", "--cap-drop", "ALL", made, "--", *check)
        finally:
            call(name, "rm", made)
        return
    writable = [word for folder in WRITABLE for word in ("--tmpfs", f"{folder}:mode=1777")]
    call(name, "run", "--rm", *CONFINED, *writable, "--volume", "/home/fedbnsl/.cache", TAG, *check)


def call(*words: str) -> None:
    """Run a command whose output is shown; raises `CalledProcessError`."""
    subprocess.run(words, check=True)


SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""what the chroot has of this machine, read-only"""
SHOWN = ("/proc", "/dev")
MADE = ("etc", "opt", "home", "tmp", "var/tmp", "root", "run")


class Chroot:
    """A root folder in memory, in a mount namespace of this process, in which instructions are executed."""

    def __init__(self, root: Path) -> None:
        self.root, self.workdir, self.user = root, "/", "root"
        self.environment = {"HOME": "/root", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        self.environment |= {name: os.environ[name] for name in os.environ if re.match("PIP_|UV_|SSL_|.*_proxy$", name)}

    def prepare(self) -> None:
        """Mount the system's programs, and the Python that runs this; copy /etc, so that no user is added here."""
        call("mount", "-t", "tmpfs", "-o", "mode=755,size=8g", "none", str(self.root))
        for folder in MADE:
            (self.root / folder).mkdir(parents=True)
        for folder in ("tmp", "var/tmp"):
            (self.root / folder).chmod(0o1777)
        prefix = str(Path(sys.base_prefix).resolve())
        for folder in (*SYSTEM, *([] if prefix.startswith("/usr") else [prefix])):
            source, target = Path(folder), self.root / folder[1:]
            if source.is_symlink():
                target.symlink_to(os.readlink(source))
            elif source.is_dir():
                target.mkdir(parents=True)
                call("mount", "--rbind", folder, str(target))
                call("mount", "-o", "remount,bind,ro", str(target))
        for folder in SHOWN:
            target = self.root / folder[1:]
            target.mkdir()
            call("mount", "--rbind", folder, str(target))
        call("cp", "-a", "/etc/.", str(self.root / "etc"))
        programs = self.root / "opt" / "base"
        programs.mkdir()
        (programs / "python").symlink_to(Path(sys.base_prefix).resolve() / "bin" / "python3")
        self.environment["PATH"] = f"/opt/base:{self.environment['PATH']}"

    def run(self, *words: str) -> None:
        """Run a command in the chroot, as its present user; raises `CalledProcessError`."""
        within = ["chroot", str(self.root), "env", "-C", self.workdir]
        privileges = ["setpriv", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]
        if self.user != "root":
            entry = subprocess.run(
                ["chroot", str(self.root), "id", "-u", self.user], check=True, capture_output=True, text=True
            )
            number = entry.stdout.strip()
            within += [*privileges, f"--reuid={number}", f"--regid={number}", "--clear-groups"]
        subprocess.run([*within, *words], check=True, env=self.environment)

    def execute(self, one: Instruction, arguments: dict[str, str]) -> None:
        """Execute an instruction; raises `ValueError` for one that is not known."""
        rest = self._expanded(one.rest)
        if one.name == "ARG":
            name, _, default = one.rest.partition("=")
            self.environment[name] = arguments.get(name, default)
        elif one.name == "ENV":
            self.environment |= dict(word.split("=", 1) for word in rest.split())
        elif one.name == "WORKDIR":
            self.workdir = rest
            self.inside(rest).mkdir(parents=True, exist_ok=True)
        elif one.name == "USER":
            self.user = rest
            self.environment["HOME"] = f"/home/{rest}"
        elif one.name == "FROM":
            self.workdir, self.user = "/", "root"
        elif one.name == "COPY":
            self._copy(rest.split())
        elif one.name == "RUN":
            self.run("sh", "-c", one.rest)
        elif one.name not in ("HEALTHCHECK", "ENTRYPOINT", "CMD"):
            raise ValueError(f"{one.name}: this instruction cannot be executed without a builder")

    def _copy(self, words: list[str]) -> None:
        """Copy the context into the working folder; what an earlier stage made is there already."""
        if words == [".", "."]:
            copy_context(self.inside(self.workdir))
        elif not (len(words) == 3 and words[0].startswith("--from=") and words[1] == words[2]):
            raise ValueError(f"COPY {' '.join(words)}: cannot be executed without a builder")

    def inside(self, path: str) -> Path:
        """The folder of the chroot at `path`."""
        return self.root / path[1:]

    def _expanded(self, text: str) -> str:
        return re.sub(r"\$(\w+)", lambda match: self.environment.get(match[1], ""), text)


def free_uid() -> int:
    """An id that no user of this machine has, because the chroot has a copy of its users."""
    taken = {user.pw_uid for user in pwd.getpwall()}
    return next(number for number in range(1000, 60000) if number not in taken)


def copy_context(target: Path) -> None:
    """Copy the checkout without what `.dockerignore` names."""
    ignored = [line for line in (ROOT / ".dockerignore").read_text("utf-8").split() if line]

    def leave_out(folder: str, names: list[str]) -> set[str]:
        paths = {name: str((Path(folder) / name).relative_to(ROOT)) for name in names}
        return {
            name
            for name, path in paths.items()
            if any(fnmatch(path, one) or (one.startswith("**/") and fnmatch(name, one[3:])) for one in ignored)
        }

    shutil.copytree(ROOT, target, ignore=leave_out, dirs_exist_ok=True, symlinks=True)


def check_in_chroot(health: list[str], version: str) -> None:
    """Execute the Containerfile in a chroot, and run `CHECK` there; raises `CalledProcessError`."""
    text = CONTAINERFILE.read_text("utf-8")
    with tempfile.TemporaryDirectory() as folder:
        chroot = Chroot(Path(folder))
        chroot.prepare()
        try:
            for one in instructions(text):
                print(f"-- {one.name} {one.rest}"[:160], flush=True)
                chroot.execute(one, {"VERSION": version, "UID": str(free_uid())})
            chroot.run("sh", "-c", CHECK, "sh", *health)
        finally:
            call("umount", "--recursive", "--lazy", folder)


def described_version() -> str:
    """A version for the package, which has no repository in the image."""
    return os.environ.get("VERSION", "0.1.0.dev0")


def main() -> int:
    """Build and check, by what this machine has."""
    health, inside = health_command(CONTAINERFILE.read_text("utf-8")), "--inside" in sys.argv[1:]
    name = None if inside or "--chroot" in sys.argv[1:] else builder()
    try:
        if name is not None:
            print(f"with {name}", flush=True)
            build_and_check(name, health, described_version())
        elif inside:
            check_in_chroot(health, described_version())
        elif os.geteuid() == 0 and shutil.which("unshare"):
            print("no builder works here: the same instructions in a chroot", flush=True)
            call("unshare", "--mount", "--fork", sys.executable, __file__, "--inside")
        else:
            print(f"neither a builder ({', '.join(BUILDERS)}) nor root for a chroot", file=sys.stderr)
            return 2
    except subprocess.CalledProcessError as error:
        print(f"failed with exit code {error.returncode}: {' '.join(map(str, error.cmd))[:300]}", file=sys.stderr)
        return 1
    if not inside:
        print("the image, and a container of it, pass all checks")
    return 0


if __name__ == "__main__":
    sys.exit(main())
