"""Audit: checks of the documents of bases, and fixes for what is safe to fix."""

from kbhub.editing.audit.material import (
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
from kbhub.editing.audit.run import audit, fix

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
