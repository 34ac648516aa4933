"""Functions that numba compiles, without numba until one is called."""

import errno
import fcntl
import os
import subprocess
import sys

from fedbnsl.algorithms.compiled import _locked, digest_of, njit, on_numba
from fedbnsl.algorithms.score.operators import best_operator, refresh


@njit()
def _inner(x):
    return x + 1


@njit()
def _outer(x):
    return 2 * _inner(x)


def test_a_compiled_function_calls_another():
    assert _outer(3) == 8
    assert _outer.__name__ == "_outer"
    assert _outer.py_func(3) == 8


PROGRAM = """
import sys
from fedbnsl.algorithms.compiled import on_numba
from fedbnsl.algorithms.moments.elimination import _eliminate
from fedbnsl.algorithms.events import hawkes
called = []
with on_numba(lambda: called.append("left")):
    pass
with on_numba(lambda: called.append("numba" in sys.modules)):
    print("numba" in sys.modules, called)
    import numpy as np
    _eliminate(np.eye(1), np.arange(1), 9, 0.1, np.ones((1, 1), bool), np.zeros((1, 1), bool))
    print(called)
"""


def test_numba_is_imported_by_the_first_call():
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["False []", "[True]"]


SMALL_GRAPHS = """
import sys
import numpy as np
from fedbnsl.algorithms.graphs.cpdag import cpdag, extend, meek_closure, member_of
def results(d):
    rng = np.random.default_rng(d)
    dag = np.triu(rng.random((d, d)) < 0.5, 1)
    graph = rng.random((d, d)) < 0.6
    found = cpdag(dag), extend(cpdag(dag)), member_of(cpdag(dag)), meek_closure(graph & ~np.eye(d, dtype=bool))
    return [one.tobytes() for one in found]
uncompiled = [results(d) for d in range(1, 12)]
print("numba" in sys.modules)
import numba
print([results(d) for d in range(1, 12)] == uncompiled)
"""


def test_small_graphs_need_no_numba_and_have_the_same_results():
    done = subprocess.run([sys.executable, "-c", SMALL_GRAPHS], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["False", "True"]


KEPT = """
import sys, time
from numba.core.caching import IndexDataCacheFile
from fedbnsl.algorithms.compiled import njit

@njit(cache=True)
def double(x):
    return x + x

number, after_reading, before_writing = eval(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
load, save = IndexDataCacheFile._load_index, IndexDataCacheFile._save_data
def slow_load(self):
    found = load(self)
    if sys._getframe(1).f_code.co_name == "save":
        print("read", flush=True)
        time.sleep(after_reading)
    return found
def slow_save(self, *given):
    time.sleep(before_writing)
    save(self, *given)
IndexDataCacheFile._load_index, IndexDataCacheFile._save_data = slow_load, slow_save
print("compile", flush=True)
sys.stdin.readline()
print(double(number))
"""


def test_processes_that_compile_at_once_do_not_exchange_their_functions(tmp_path):
    """Both read an empty index; the first writes its function last, in the file that the second recorded as its own."""
    program = tmp_path / "kept.py"
    program.write_text(KEPT)

    def start(*words):
        piped = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        return subprocess.Popen([sys.executable, program, *words], **piped)

    both = [start("21", "0.3", "1.0"), start("0.75", "0.6", "0")]
    for process in both:
        assert process.stdout.readline() == "compile\n"
    for process in both:
        process.stdin.write("now\n")
        process.stdin.flush()
    assert [process.communicate()[0].split()[-1] for process in both] == ["42", "1.5"]
    for number, doubled in (("21", "42"), ("0.75", "1.5")):
        assert start(number, "0", "0").communicate("now\n")[0].split()[-1] == doubled


CALLEE = """
import numpy as np
from fedbnsl.algorithms.compiled import njit
FACTOR, TABLE = {factor}, np.array([{entry}])

@njit(cache=True)
def inner(x):
    return {body}
"""
CALLER = """
import numpy as np
from callee import FACTOR, TABLE, inner
from fedbnsl.algorithms.compiled import njit

@njit(cache=True)
def outer(x):
    return FACTOR * inner(x) + [TABLE[0] for _ in range(1)][0]

print(outer(1))
"""


def test_what_a_function_calls_and_reads_is_compiled_again_after_a_change(tmp_path):
    """Only the called function's file changes; the caller's compiled code is on disk."""
    (tmp_path / "caller.py").write_text(CALLER)

    def run(**parts):
        (tmp_path / "callee.py").write_text(CALLEE.format(**parts))
        folders = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
        command = [sys.executable, "-B", tmp_path / "caller.py"]
        surroundings = os.environ | {"PYTHONPATH": folders}
        return int(subprocess.run(command, check=True, capture_output=True, text=True, env=surroundings).stdout)

    assert run(factor=10, entry=0, body="x + 1") == 20
    assert run(factor=10, entry=0, body="x + 2") == 30
    assert run(factor=100, entry=0, body="x + 2") == 300
    assert run(factor=100, entry=7, body="x + 2") == 307


def test_a_file_system_without_locks_is_used_all_the_same(tmp_path, monkeypatch):
    def refused(*_):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", refused)
    with _locked(str(tmp_path)), _locked(str(tmp_path / "missing")):
        pass


def test_a_digest_is_the_same_in_every_process():
    command = "from fedbnsl.algorithms.compiled import digest_of; from fedbnsl.algorithms.score.ges import *"
    command = f"{command}; print(digest_of(refresh))"
    other = subprocess.run([sys.executable, "-c", command], check=True, capture_output=True, text=True).stdout.strip()
    assert other == digest_of(refresh)
    assert other != digest_of(best_operator)


def test_after_the_import_it_is_called_at_once():
    _outer(1)
    called = []
    with on_numba(lambda: called.append(1)):
        assert called == [1]
