"""What a service says of a reply beside the reply: usage, cached tokens and its own timings, as its dialect has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hotloop.lab.engines.work import Work
from hotloop.lab.profiles import Profile
from hotloop.lab.render import Report
from hotloop.lab.script import Headers, Request
from hotloop.units import NS_PER_MS, NS_PER_S

_UNREPORTED = ("ollama", "gemini")  # they cache, and do not say so
_OPTIONAL = ("vllm", "sglang", "dynamo")  # it is for the operator to switch on


def report_of(profile: Profile, work: Work, request: Request, completion_tokens: int) -> Report:
    """What the service says about a reply that is complete."""
    prompt_tokens = work.prompt.tokens
    usage: dict[str, Any] = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }
    report = Report(usage)
    dialect = profile.dialect
    if profile.cache_block and dialect not in _UNREPORTED and (profile.reports or dialect not in _OPTIONAL):
        usage["prompt_tokens_details"] = {"cached_tokens": work.cached}
        if dialect == "deepseek":
            usage["prompt_cache_hit_tokens"] = work.cached
    if work.arrived and (tell := _TIMINGS.get(dialect)):  # an odd reply is written before there are times to tell
        tell(profile, work, request, report)
    return report


def timing_headers(profile: Profile, work: Work) -> Headers:
    """What the headers say about time, when they are sent."""
    if profile.dialect != "openai":
        return ()
    until = work.first if work.streamed else work.last
    return ((b"openai-processing-ms", b"%d" % round((until - work.arrived) / NS_PER_MS)),)


def _groq(profile: Profile, work: Work, request: Request, report: Report) -> None:
    report.usage |= {
        "queue_time": (work.first - work.arrived - work.prefill) / NS_PER_S,
        "prompt_time": work.prefill / NS_PER_S,
        "completion_time": (work.last - work.first) / NS_PER_S,
        "total_time": (work.last - work.first + work.prefill) / NS_PER_S,
    }
    if work.streamed:
        report.finish = {"x_groq": {"id": "req_simulated", "usage": report.usage}}
    else:
        report.last = {"x_groq": {"id": "req_simulated"}}


def _llamacpp(profile: Profile, work: Work, request: Request, report: Report) -> None:
    read, written = work.prompt.tokens - work.cached, report.usage["completion_tokens"]
    reading, writing = work.prefill / NS_PER_MS, (work.last - work.first) / NS_PER_MS
    timings: dict[str, float | None] = {"cache_n": work.cached, "prompt_n": read, "prompt_ms": reading}
    timings["prompt_per_second"] = _per_second(read, reading)
    timings |= {"predicted_n": written, "predicted_ms": writing, "predicted_per_second": _per_second(written, writing)}
    report.last = {"timings": timings}


def _vllm(profile: Profile, work: Work, request: Request, report: Report) -> None:
    if profile.reports:
        tokens, writing = report.usage["completion_tokens"], (work.last - work.first) / NS_PER_MS
        report.last = {
            "metrics": {
                "time_to_first_token_ms": (work.first - work.admitted) / NS_PER_MS,
                "generation_time_ms": writing,
                "queue_time_ms": (work.admitted - work.arrived) / NS_PER_MS,
                "mean_itl_ms": _gap(tokens, writing),
                "tokens_per_second": _per_second(tokens - 1, writing),
            }
        }


def _dynamo(profile: Profile, work: Work, request: Request, report: Report) -> None:
    asked = request.get("nvext")
    if isinstance(asked, dict) and "timing" in (asked.get("extra_fields") or ()):
        gap = _gap(report.usage["completion_tokens"], (work.last - work.first) / NS_PER_MS)
        report.last = {"nvext": {"timing": {"ttft_ms": (work.first - work.arrived) / NS_PER_MS, "itl_ms": gap}}}


def _per_second(tokens: int, milliseconds: float) -> float | None:
    return tokens / milliseconds * 1000 if milliseconds else None


def _gap(tokens: int, milliseconds: float) -> float | None:
    return milliseconds / (tokens - 1) if tokens > 1 else None


_TIMINGS: dict[str, Callable[[Profile, Work, Request, Report], None]] = {
    "groq": _groq,
    "llamacpp": _llamacpp,
    "vllm": _vllm,
    "dynamo": _dynamo,
}
