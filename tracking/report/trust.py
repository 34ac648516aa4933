"""The sections of a report that say what the answer rests on, and what its data can and cannot support."""

from ..result import RunResult
from .page import paragraph, section, table


def trust_sections(result: RunResult) -> list[str]:
    """Return what was decided from the data and what the directions rest on, then the findings with what to do."""
    asked = [paragraph(f"Asked for {result.asked}: {result.algorithm} was chosen.")] if _chosen(result) else []
    found = [section("What the answer rests on", *asked, *(paragraph(one) for one in result.basis))]
    findings = result.diagnosed.findings
    if findings:
        rows = [(one.name, one.said, one.advice) for one in findings]
        found.append(
            section("What to know before trusting it", table(("finding", "what was seen", "what to do"), rows))
        )
    return found


def _chosen(result: RunResult) -> bool:
    return bool(result.asked) and result.asked != result.algorithm
