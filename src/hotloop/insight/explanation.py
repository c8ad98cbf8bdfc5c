"""Everything that recorded runs tell about their time: budget, critical path, diagnosis, and what would help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hotloop.insight.candidates import Candidate, candidates
from hotloop.insight.critical import CriticalPath, critical_path
from hotloop.insight.doctor import Finding, diagnose
from hotloop.insight.report import Report, report, report_dict
from hotloop.insight.serving import ServiceProfile
from hotloop.insight.workload import Workload
from hotloop.trace.record import TraceRecord


class Explanation(msgspec.Struct, frozen=True):
    """What `runs` tell, of which so many are `left_out` of path and predictions because they did not end well.

    They are of these `agents` with these `versions`, run by these `sources` (hotloop or other frameworks); the first
    began at `since`, the last at `until` (Unix seconds).
    `helps` are the changes that would save time, what saves most first.
    """

    runs: int
    left_out: int
    agents: list[str]
    versions: list[str]
    sources: list[str]
    since: float
    until: float
    report: Report
    path: CriticalPath
    findings: list[Finding]
    helps: list[Candidate]

    @property
    def ours(self) -> bool:
        """Whether hotloop ran some of them, so that its settings are theirs."""
        return "hotloop" in self.sources

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        plain = ("runs", "left_out", "agents", "versions", "sources", "since", "until")
        told = {name: getattr(self, name) for name in plain}
        told |= {"report": report_dict(self.report), "findings": [each.to_dict() for each in self.findings]}
        told["critical_path"] = self.path._asdict() | {"rows": msgspec.to_builtins(self.path.rows)}
        told["helps"] = [_help(each) for each in self.helps]
        return told


def explain(records: Sequence[TraceRecord], services: Sequence[ServiceProfile] = ()) -> Explanation:
    """What these runs tell, with predictions for each of these services in the place of theirs.

    Raises ValueError if there are no runs.
    """
    work = Workload.of(records)
    moments = [record.started for record in records]
    return Explanation(
        runs=len(records),
        left_out=work.left_out,
        agents=sorted({record.name for record in records}),
        versions=sorted({record.version for record in records}),
        sources=sorted({record.source for record in records}),
        since=min(moments),
        until=max(moments),
        report=report(records),
        path=critical_path(work.graphs),
        findings=diagnose(records),
        helps=candidates(work, services),
    )


def _help(candidate: Candidate) -> dict[str, Any]:
    proposal, prediction = candidate
    told = {"change": proposal.edit.label}
    told |= {name: getattr(proposal, name) for name in ("cost", "do", "python", "yaml")}
    return told | {"prediction": msgspec.to_builtins(prediction)}
