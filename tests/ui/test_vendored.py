"""The vendored scripts are those that their list names, and nothing else lies beside them."""

import hashlib
import re

from kbhub.render.html import STATIC
from kbhub.ui.documents import EDITORS
from kbhub.workspace.settings import Editor


def test_each_script_is_the_one_that_was_published_and_every_editor_of_the_settings_has_an_address():
    folder = STATIC / "vendor"
    listed = dict(
        re.findall(r"^\| `([\w.]+)` .*`([0-9a-f]{64})` \|$", (folder / "README.md").read_text(), re.MULTILINE)
    )
    assert {file.name for file in folder.iterdir()} == {*listed, "README.md"}
    assert {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in listed} == listed

    assert set(EDITORS) == set(Editor.__args__)
