"""The commands about memories do what they say, in words, streams and exit codes."""

import re
from functools import partial

import pytest


@pytest.fixture
def kbhub(kbhub):
    """Runs a command in this process, in the project, as a user with an empty home who types nothing."""
    return partial(kbhub, stdin=b"")


def identifier(out):
    return re.search(r"  id (\w{8})  ", out)[1]


def test_remember_recall_and_forget_and_export_and_import_through_a_pipe(kbhub):
    code, out, err = kbhub("remember", "--tag", "deploy", "Releases", "need the VPN")
    assert (code, err) == (0, "")
    assert out.startswith("Remembered: memory@releases-need-the-vpn-")
    name = identifier(out)

    assert kbhub("recall", "vpn")[1].endswith("  │ Releases need the VPN\n")
    assert name in kbhub("memories", "--tag", "deploy")[1]
    kbhub("search", "vpn")
    assert kbhub("read", out.split()[1])[0] == 0
    assert [one["uses"] for one in kbhub("memories", "--json", code=0).json["memories"]] == [1]  # by whoever reads it
    assert kbhub("remember", "--id", name)[1].startswith("Confirmed: ")
    assert kbhub("remember", "Releases need the VPN")[1].startswith("Already known, strengthened: ")
    code, out, _ = kbhub("forget", name)
    assert (code, out.startswith("Forgot 1 memory:\n")) == (0, True)
    assert "Kept for 30 days; `kbhub memories restore ID` restores one." in out
    assert kbhub("recall", "vpn")[0] == 1

    kbhub("remember", "Cats sleep", "--scope", "user")
    out = kbhub("memories", "export")[1]
    kbhub("forget", "--all", "--scope", "user")
    code, said, _ = kbhub("memories", "import", "-", stdin=out.encode())
    assert (code, said) == (0, "Imported 1 memory (kbhub); 0 already known.\n")
    assert "Cats sleep" in kbhub("memories", "--scope", "user")[1]


def test_a_text_from_standard_input_is_remembered_whole_or_not_at_all(kbhub, environment):
    said = (2, "", "kbhub: Standard input is not UTF-8 (byte 3). Convert it first.\n")
    assert kbhub("remember", "-", stdin=b"caf\xe9") == said
    assert kbhub("memories", "import", "-", stdin=b"caf\xe9") == said
    for given in (("caf\udce9",), ("tea", "--tag", "caf\udce9"), ("tea", "--from", "caf\udce9")):
        assert kbhub("remember", *given) == (2, "", "kbhub: 'caf\\udce9' is not UTF-8. Convert it first.\n")
    file = environment.write(environment.home / "export.json", b'{"caf\xe9": 1}')
    code, _, err = kbhub("memories", "import", str(file))
    assert (code, err) == (2, f"kbhub: {file} is not UTF-8 (byte 5). Convert it first.\n")
    code, _, err = kbhub("remember", "-", stdin=b"a" * 99_990 + b" " * 20 + b"b")
    assert (code, err) == (2, "kbhub: Standard input is longer than the 100000 bytes allowed for a memory.\n")
    assert kbhub("memories").out == ""
    done = kbhub("remember", "-", "--json", stdin="Größe zählt.\n\nSecond.\n".encode(), code=0)
    assert done.json["memory"]["text"] == "Größe zählt.\n\nSecond."
