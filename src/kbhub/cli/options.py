"""Options that several commands share, as cyclopts is to take and explain them."""

from __future__ import annotations

from cyclopts import Group, Parameter

from kbhub.cli.given import MOST_AROUND, Common, Formats, Hits, Lines, Places, Tables, Ways

__all__ = ["MOST_AROUND", "Common", "Formats", "Hits", "Lines", "Places", "Tables", "Ways"]

_COMMON = Group("Common options", sort_key=2)

for _shared in (Places, Common, Tables, Formats):
    Parameter(name="*", group=_COMMON)(_shared)
for _shown in (Hits, Lines):
    Parameter(name="*")(_shown)
