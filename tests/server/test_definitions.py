"""The stored definitions of the tools are those that the SDK makes of the tools."""

from __future__ import annotations

import pytest

import generate
from kbhub.server import definitions


@pytest.mark.parametrize("structured", [True, False])
def test_what_is_sent_is_what_the_sdk_would_send(structured):
    assert definitions.kept(structured=structured) == generate.registered_tools(structured=structured)
