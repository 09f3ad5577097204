"""The Open Knowledge Format (OKF) 0.2: bundles are recognised, checked, kept and exported."""

from kbhub.workspace.extensions import Extension

_HERE = "kbhub.extensions.okf"

EXTENSION = Extension(
    signals=(f"{_HERE}.bundles:SIGNAL",),
    audits={"okf": ("pages that do not follow the Open Knowledge Format", f"{_HERE}.conformance:CHECK")},
)
