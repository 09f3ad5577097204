"""Forked processes have the memory of the process that forks them, but none of its files."""

import os
import sys
import threading
from pathlib import Path

import pytest

from kbhub.workspace.child_processes import Fork, can_fork, end

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="forks only there"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning"),  # the test runner may have threads
]


def test_a_fork_answers_with_what_this_process_has_and_nothing_it_holds_open(tmp_path, capfd):
    known = object()

    def task(answers):
        sys.stdout.write("this is nobody's output")
        targets = [os.path.realpath(file) for file in Path("/proc/self/fd").iterdir()]
        answers.write(f"{id(known)} {str(tmp_path / 'held') in targets}".encode())

    with (tmp_path / "held").open("w") as held:
        held.write("written by the parent alone")
        fork = Fork(task)
        said = fork.stdout.read()
        assert fork.wait() == 0
    end(fork)

    assert said == f"{id(known)} False".encode()
    assert (tmp_path / "held").read_text() == "written by the parent alone"
    assert capfd.readouterr() == ("", "")


def test_the_exit_code_tells_of_an_error_and_of_a_kill():
    def fail(_):
        raise ValueError("of its own")

    failed, killed = Fork(fail), Fork(lambda _: threading.Event().wait())
    killed.kill()
    assert failed.wait() == 1
    assert killed.wait() < 0
    for fork in (failed, killed):
        end(fork)  # a second time does no harm
    assert failed.stdout.closed


def test_a_process_with_threads_is_not_forked():
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    try:
        assert not can_fork()
    finally:
        over.set()
        thread.join()
