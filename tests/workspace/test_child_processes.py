"""Forked processes have the memory of the process that forks them, but none of its files; and what each takes."""

import gc
import os
import sys
import threading
from pathlib import Path

import pytest

from kbhub.__main__ import main
from kbhub.workspace import child_processes
from kbhub.workspace.child_processes import Fork, can_fork, end

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")  # the test runner may have some
forking = pytest.mark.skipif(sys.platform != "linux", reason="forks only there")


@pytest.fixture(autouse=True)
def _collector():
    """Other tests find the collector as it was."""
    enabled, threshold = gc.isenabled(), gc.get_threshold()
    yield
    gc.set_threshold(*threshold)
    gc.enable() if enabled else gc.disable()
    gc.unfreeze()


@forking
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


@forking
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


@forking
def test_a_process_with_threads_is_not_forked():
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    try:
        assert not can_fork()
    finally:
        over.set()
        thread.join()


def test_arithmetic_gets_one_thread_and_models_no_plugins_unless_the_user_says_so():
    set_by_us, set_by_user = {}, {"OPENBLAS_NUM_THREADS": "4", "PYDANTIC_DISABLE_PLUGINS": ""}
    child_processes.be_frugal(set_by_us)
    child_processes.be_frugal(set_by_user)
    told = {"OPENBLAS_NUM_THREADS": "1", "PYDANTIC_DISABLE_PLUGINS": "__all__", "TOKENIZERS_PARALLELISM": "false"}
    assert set_by_us == told
    assert set_by_user == {**told, "OPENBLAS_NUM_THREADS": "4", "PYDANTIC_DISABLE_PLUGINS": ""}


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_is_collected_seldom_unless_the_collector_is_off(enabled):
    before = gc.get_threshold()
    gc.enable() if enabled else gc.disable()
    child_processes.be_frugal({})
    assert gc.get_threshold() == ((child_processes.YOUNG_OBJECTS, *before[1:]) if enabled else before)
    child_processes.be_frugal({}, child_processes.OBJECTS_OF_A_SEARCH)
    assert gc.get_threshold() == ((child_processes.OBJECTS_OF_A_SEARCH, *before[1:]) if enabled else before)
    assert gc.isenabled() == enabled


def test_only_a_process_that_is_over_leaves_its_objects_behind(environment, monkeypatch, capsys):
    before = gc.get_freeze_count()
    assert main(["--version"]) == 0
    assert gc.get_freeze_count() == before
    monkeypatch.setattr(sys, "argv", ["kbhub", "--version"])
    assert main() == 0
    assert gc.get_freeze_count() > before
