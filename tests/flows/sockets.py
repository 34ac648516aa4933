"""The listening sockets of a command and all its processes, from /proc; attempts of another account to use them, and of
anybody to harm the processes behind them.
"""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from socket import create_connection
from uuid import uuid4

from fedbnsl.tracking.own_servers import MLFLOW, PREFECT, basic
from tests.hostile import floods, handshakes, head, hostile, memory, requests, send, untrusting

MARK = "FEDBNSL_TEST_MARK"
SERVED = 45.0
"""seconds until a new socket must be served, on a busy machine"""
LISTENING, ACCEPTING = "0A", 0x10000


@dataclass(frozen=True, order=True)
class Socket:
    """A listening socket: its kind ("tcp", "tcp6", "udp", "udp6", "unix"), and its address and port, or its path."""

    kind: str
    address: str
    port: int = 0
    process: int = field(default=0, compare=False)


def processes_of(mark):
    """The numbers of all processes that inherited the environment of the command with this `mark`."""
    marked = f"{MARK}={mark}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if marked in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def listening_sockets(mark):
    """Every socket on which a process with the `mark` waits for connections or packets."""
    owners = {}
    for pid in processes_of(mark):
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                target = os.readlink(link)
            except OSError:
                continue
            if target.startswith("socket:["):
                owners[target[8:-1]] = pid
    found = set()
    for kind in ("tcp", "tcp6", "udp", "udp6"):
        for words in (line.split() for line in Path(f"/proc/net/{kind}").read_text().splitlines()[1:]):
            address, _, port = words[1].partition(":")
            unconnected = words[2].split(":")[1] == "0000"
            if words[9] in owners and (words[3] == LISTENING if kind.startswith("tcp") else unconnected):
                found.add(Socket(kind, _dotted(address), int(port, 16), owners[words[9]]))
    for words in (line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]):
        if words[6] in owners and int(words[3], 16) & ACCEPTING:
            found.add(Socket("unix", words[7] if len(words) > 7 else "", 0, owners[words[6]]))
    return found


def _dotted(word):
    """The address in a line of /proc/net, in which each group of four bytes is in the order of this machine."""
    import ipaddress

    groups = [bytes.fromhex(word[start : start + 8])[::-1] for start in range(0, len(word), 8)]
    return str(ipaddress.ip_address(b"".join(groups)))


def arguments_of(mark):
    """The arguments of every process with the `mark`, as any account of the machine can read them."""
    lines = {}
    for pid in processes_of(mark):
        try:
            lines[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
    return lines


ATTACK = r"""
import encodings.idna, http.client, json, os, socket, ssl, sys

if os.getuid() == 0:  # all is imported by now, because the other account may not read this Python's files
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)

def tls(address, port):
    "None if nobody speaks TLS there; otherwise how much the server sends without a certificate."
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((address, port), 5) as plain, context.wrap_socket(plain) as secured:
            try:
                secured.sendall(b"GET / HTTP/1.1\r\n\r\n")
                return {"sent": len(secured.recv(1000))}
            except OSError:  # an alert, or the end of the connection before the alert arrived
                return {"sent": 0}
    except OSError as error:
        return {"sent": 0} if "ALERT" in str(error).upper() else None

def web(address, port, method, path, headers):
    connection = http.client.HTTPConnection(address, port, timeout=10)
    try:
        connection.putrequest(method, path, skip_host="Host" in headers)
        body = b"{}" if method == "POST" else b""
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        return {"status": answer.status, "headers": {k.lower(): v for k, v in answer.getheaders()},
                "body": answer.read(2000).decode("latin-1")}
    except (http.client.HTTPException, OSError) as error:
        return {"status": None, "why": repr(error)}
    finally:
        connection.close()

def raw(address, port, sent):
    "How many bytes the server sends to somebody who sends `sent`, and whether it ends the connection."
    with socket.create_connection((address, port), 5) as plain:
        plain.settimeout(5)
        received = 0
        try:
            plain.sendall(sent.encode("latin-1"))
            while part := plain.recv(1000):
                received += len(part)
        except ConnectionError:
            return {"received": received, "ended": True}
        except TimeoutError:
            return {"received": received, "ended": False}
        return {"received": received, "ended": True}

def local(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.settimeout(5)
        try:
            made.connect(path)
        except OSError as error:
            return {"connected": False, "why": repr(error)}
        return {"connected": True}

calls = {"tls": tls, "web": web, "raw": raw, "local": local, "account": os.getuid}
json.dump([calls[name](*given) for name, *given in json.load(sys.stdin)], sys.stdout)
"""


def as_other_account(calls):
    """The results of `calls` to the functions of `ATTACK`, in a process of another account if this one may switch."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", ATTACK],
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        timeout=200,
        cwd="/",
        env={},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


PUBLIC = {
    # Prefect's pages, the same for everybody: they show nothing before somebody signs in.
    *("/", "/docs", "/redoc", "/openapi.json", "/ui-settings", "/api/health", "/api/ready"),
}
"""what Prefect's server answers to everybody"""
PATHS = (
    *(("GET", path) for path in sorted(PUBLIC)),
    *(("GET", path) for path in ("/health", "/version", "/metrics", "/static-files/index.html", "/nowhere")),
    *(("GET", path) for path in ("/api/admin/version", "/api/admin/settings", "/api/health/../admin/settings")),
    *(("POST", path) for path in ("/api/flow_runs/filter", "/api/variables/", "/api/work_pools/", "/api/health")),
    *(("GET", f"{api}/experiments/search?max_results=9") for api in ("/api/2.0/mlflow", "/ajax-api/2.0/mlflow")),
    *(("POST", f"/api/2.0/mlflow/{what}") for what in ("experiments/create", "experiments/search", "runs/create")),
    ("GET", "/get-artifact?path=a&run_uuid=b"),
    ("PUT", "/api/2.0/mlflow-artifacts/artifacts/planted.txt"),
    ("GET", "/api/2.0/mlflow-artifacts/artifacts?path="),
    ("POST", "/graphql"),
)
"""requests to both servers; each server is asked for the paths of the other, too"""
PAGES = (
    {"Origin": "http://evil.example"},
    {"Origin": "http://127.0.0.1:9"},  # a page of another account's server on this machine
    {"Origin": "null"},
    {"Host": "evil.example"},  # a name of the attacker that resolves to this machine
    {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
)
"""headers that a browser sends for a page of another origin"""


def answers(there, requests):
    """The answers to (method, path, headers) at the socket `there`."""
    return as_other_account([("web", there.address, there.port, *request) for request in requests])


def token_of(process):
    """The token that a server requires, as its owner knows it: from the environment of the process."""
    words = (part.partition(b"=") for part in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"))
    given = {name.decode(): value.decode() for name, _, value in words}
    if "MLFLOW_TRACKING_PASSWORD" in given and "MLFLOW_BACKEND_STORE_URI" in given:
        return f"{given['MLFLOW_TRACKING_USERNAME']}:{given['MLFLOW_TRACKING_PASSWORD']}"
    return given.get("PREFECT_SERVER_API_AUTH_STRING")


def check_refused(there):
    """Assert that the socket `there` refuses every account and page without this user's credential; returns its kind.

    A socket of an unknown kind is an error.
    """
    if there.kind == "unix":
        assert there.address.startswith("/"), f"{there}: every account reaches an abstract socket"
        path = Path(there.address)
        mode = path.stat().st_mode
        closed = any(not one.stat().st_mode & stat.S_IXOTH for one in path.parents)
        assert closed or not mode & 0o077, f"{there}: other accounts may connect"
        if os.getuid() == 0:
            (tried,) = as_other_account([("local", there.address)])
            assert not tried["connected"], there
        return "private socket"
    assert there.kind in ("tcp", "tcp6"), f"{there}: packets need no credential"
    (plain,) = answers(there, [("GET", "/", {})])
    if plain["status"] is not None:
        return _check_web(there)
    (secured,) = as_other_account([("tls", there.address, there.port)])
    if secured is None:
        return _check_silent(there)
    assert secured["sent"] == 0, f"{there}: answers without a certificate: {secured}"
    return "TLS with certificates"


def _check_web(there):
    """As `check_refused`, for a server of HTTP."""
    token = token_of(there.process)
    assert token is not None, f"{there}: a web server without a credential"
    without = [
        (method, path, headers) for method, path in PATHS for headers in ({}, basic("fedbnsl:guessed"), PAGES[0])
    ]
    responses = answers(there, without)
    browser_keeps = False
    for (method, path, headers), response in zip(without, responses, strict=True):
        where = f"{there}: {method} {path} with {headers}: {response}"
        if response["status"] == 401:
            browser_keeps |= "www-authenticate" in response["headers"]
            continue
        assert response["status"] in (403, 404, 405) or (method == "GET" and path in PUBLIC), where
    probe = (MLFLOW if browser_keeps else PREFECT).probe
    (own,) = answers(there, [("GET", probe if browser_keeps else f"/api{probe}", basic(token))])
    assert own["status"] == 200, own
    # If a browser is asked for a password, it adds it to the requests of every page.
    if browser_keeps:
        with_it = [(method, path, page | basic(token)) for method, path in PATHS for page in PAGES]
        for request, response in zip(with_it, answers(there, with_it), strict=True):
            assert response["status"] == 403, f"{there}: {request}: {response}"
        return "MLflow"
    for page in PAGES[:3]:
        read, write = answers(
            there,
            [
                ("GET", "/api/admin/settings", page | basic(token)),
                ("POST", "/api/flow_runs/filter", page | basic(token)),
            ],
        )
        assert read["status"] == 200, read
        assert "access-control-allow-origin" not in read["headers"], f"{there}: a page of another origin reads answers"
        assert write["status"] == 403, f"{there}: {page} writes: {write}"
    return "Prefect"


def _check_silent(there):
    """Assert that `there` only ends connections, as the channel does by which Prefect stops the processes of runs.

    Each of these processes has a token for it, which is valid once.
    """
    sent = ("GET / HTTP/1.1\r\n\r\n", "\n", f"{'a' * 43}\n", "\x00\xff" * 500 + "\n")
    for response in as_other_account([("raw", there.address, there.port, text) for text in sent]):
        assert response == {"received": 0, "ended": True}, f"{there}: an unknown kind: {response}"
    return "silent"


@contextmanager
def running(words, folder, **environment):
    """A command of the program in `folder`, as a process; yields it, its mark and its log."""
    mark = uuid4().hex
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PREFECT_", "MLFLOW_", "FEDBNSL_"))}
    env = {**kept, MARK: mark, "FEDBNSL_HOME": str(folder / "home"), **environment}
    log = folder / f"{words[0]}.log"
    with log.open("wb") as out:
        child = subprocess.Popen(
            [sys.executable, "-m", "fedbnsl.flows.cli.main", *words],
            cwd=folder,
            env=env,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        try:
            yield child, mark, log
        finally:
            child.terminate()
            try:
                child.wait(60)
            except subprocess.TimeoutExpired:
                child.kill()
            finally:
                for pid in processes_of(mark):
                    os.kill(pid, signal.SIGKILL)


def watch(child, mark, log, until, patience=120.0):
    """Check every socket that appears until the log contains `until`; returns the kinds and all arguments seen."""
    kinds, seen = {}, set()
    deadline = time.monotonic() + patience
    while True:
        last = until in log.read_text("utf-8")
        for there in listening_sockets(mark) - {*kinds}:
            started = time.monotonic()
            while there not in kinds and there in listening_sockets(mark):
                try:
                    kinds[there] = check_refused(there)
                except (AssertionError, OSError):
                    # The owner of a new socket may not serve it yet.
                    if time.monotonic() > started + SERVED:
                        raise
                    time.sleep(1)
        seen.update(arguments_of(mark).values())
        if last:
            return kinds, seen
        assert child.poll() is None, log.read_text("utf-8")
        assert time.monotonic() < deadline, log.read_text("utf-8")
        time.sleep(0.2)


GROWTH_BYTES = 160 << 20
"""how much more memory a process may use; a flood is longer, and a run itself grows by 90 MB after its first round"""
SLOW = 100
"""number of clients of each socket that begin a request or a handshake, and send no more"""
TARGETS = [(method, path) for method, path in PATHS if method != "GET"]


def streams(there, kind, mark, certified):
    """The parts of what `withstand` sends to the socket `there`, each with the context of TLS or None."""
    host = f"Host: {there.address}:{there.port}"
    for content in (*hostile(mark, 1), *handshakes(2), *requests(mark, TARGETS, [host], 3)):
        yield [content], None
    if token := token_of(there.process):
        own = [host, *(f"{name}: {value}" for name, value in basic(token).items())]
        yield from (([content], None) for content in requests(mark, TARGETS, own, 4))
    for context in (untrusting(), *certified) if kind == "TLS with certificates" else ():
        yield from (([content], context) for content in hostile(mark, 5, "clinic"))
    yield from ((parts, None) for parts in floods(host))


def withstand(kinds, mark, certified):
    """Send hostile bytes to the sockets in `kinds`; assert that the processes behind them go on as before.

    The bytes are sent without a credential, with the token of a server, and with the contexts `certified`. No program
    in them creates the file `mark`. Each socket is still of its kind, with `SLOW` open connections, and no process
    needs much more memory. Bytes with a credential are few, because its holder may store as much as the user.
    """
    used = {(there.process, what): memory(there.process, what) for there in kinds for what in ("VmRSS", "VmHWM")}
    with ExitStack() as slow, ThreadPoolExecutor(8) as threads:
        for there in kinds:
            for number in range(SLOW):
                peer = slow.enter_context(create_connection((there.address, there.port), 10))
                peer.sendall(head(("GET", "/"), "X: y") if number % 2 else b"\x16\x03\x01")
        sent = [
            threads.submit(send, (there.address, there.port), parts, context)
            for there, kind in kinds.items()
            for parts, context in streams(there, kind, mark, certified)
        ]
        for one in sent:
            one.result()
        assert {there: check_refused(there) for there in kinds} == kinds
    for (process, what), before in used.items():
        grown = memory(process, what) - before
        words = Path(f"/proc/{process}/cmdline").read_text()
        assert grown < GROWTH_BYTES, f"{grown} bytes more ({what}) of {words}"
    assert not mark.exists()
