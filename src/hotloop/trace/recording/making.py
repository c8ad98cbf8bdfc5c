"""A run that has ended becomes its record, with as much of what was said in it as may be kept."""

from __future__ import annotations

from hotloop.trace.record import Ended, TraceRecord
from hotloop.trace.recording.digests import said_in
from hotloop.trace.recording.redaction import without_secrets, without_words


def record_of(ended: Ended, content: bool) -> TraceRecord:
    """The record of a run, with what was said in it or without; its ledger stays as it is."""
    record = ended.record()
    record.tools = ended.ledger.tools  # type: ignore[assignment]  # the agent's own, which are packed once
    record.prompt, record.answer, record.said = said_in(ended.words, content)
    if content:
        without_secrets(record)
    else:
        without_words(record)
    return record
