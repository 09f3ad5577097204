"""What a process takes."""

import gc
import sys

import pytest

from kbhub.__main__ import main
from kbhub.workspace import child_processes


@pytest.fixture(autouse=True)
def _collector():
    """Other tests find the collector as it was."""
    enabled, threshold = gc.isenabled(), gc.get_threshold()
    yield
    gc.set_threshold(*threshold)
    gc.enable() if enabled else gc.disable()
    gc.unfreeze()


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
