"""When heartbeats stop: a process of its own answers calls that compute, or wait for a disk that does not respond."""

import os
import subprocess
import sys
from threading import Event, Thread

import pytest

from fedbnsl.tasks.silo.heartbeat import Heartbeat

SILO = """
import sys, time
from threading import Event, Thread
from fedbnsl.tasks.silo.heartbeat import Heartbeat

heartbeat, ended = Heartbeat(), Event()

def compute():
    while not ended.is_set():
        sum(range(1000))

def hang():
    open(sys.argv[1]).read()

def grows(seconds=0.5):
    heartbeat.count()  # the call may have begun since the last one
    before = heartbeat.count()
    time.sleep(seconds)
    return heartbeat.count() > before

for work in (None, compute, hang):
    def answer():
        with heartbeat.answering():
            work()
    if work:
        call = Thread(target=answer, daemon=True)
        call.start()
        time.sleep(0.2)
    print(work.__name__ if work else "idle", grows(), flush=True)
    ended.set()
    if work is compute:
        call.join()
sys.stdin.readline()
call.join()
print("released", grows())
"""


def test_heartbeats_stop_while_a_call_waits_for_a_disk(tmp_path):
    pipe = tmp_path / "rows.csv"
    os.mkfifo(pipe)
    words = [sys.executable, "-c", SILO, str(pipe)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as silo:
        said = [silo.stdout.readline().strip() for _ in range(3)]
        pipe.write_text("x\n")
        said.append(silo.communicate("go on\n", timeout=60)[0].strip())
    assert said == ["idle True", "compute True", "hang False", "released True"]


@pytest.mark.parametrize(
    ("options", "beats"),
    [({}, False), ({"remote_rows": True}, True), ({"reader_seconds": iter(range(9)).__next__}, True)],
)
def test_processes_that_read_rows_elsewhere_are_progress(options, beats):
    heartbeat, ended = Heartbeat(**options), Event()

    def answer():
        with heartbeat.answering():
            ended.wait(60)

    Thread(target=answer).start()
    heartbeat.count()
    before = heartbeat.count()
    after = heartbeat.count()
    ended.set()
    assert (after > before) == beats
