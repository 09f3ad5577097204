"""What is wrong in the documents of bases, or worth a look, and mending what is safe to mend."""

from kbhub.audit.auditing import audit
from kbhub.audit.mending import fix
from kbhub.audit.models import (
    CHECKS,
    SEVERITIES,
    AuditFinding,
    AuditReport,
    Change,
    CheckCount,
    Fix,
    Fixed,
    Severity,
)

__all__ = [
    "CHECKS",
    "SEVERITIES",
    "AuditFinding",
    "AuditReport",
    "Change",
    "CheckCount",
    "Fix",
    "Fixed",
    "Severity",
    "audit",
    "fix",
]
