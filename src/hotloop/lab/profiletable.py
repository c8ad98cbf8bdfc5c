"""The profiles that come with the house: published figures, fitted, each with its source and what it is worth."""

from __future__ import annotations

from hotloop.lab.profiles import Curve, Profile

_GROQ_SOURCE = "Groq's listed speeds, and the times in one documented reply"
_GROQ_CONFIDENCE = "TPOT good; prefill low; stream slots unknown, so nobody waits for one"


def _groqcloud(model: str, tpot_ms: float) -> Profile:
    return Profile(
        name=f"groqcloud-{model}",
        kind="lpu",
        base_ms=30.0,
        per_prompt_token_ms=0.15,
        tpot_ms=Curve(tpot_ms),
        queue_sigma=0.1,
        cache_block=128,
        cache_expiry=7200.0,
        dialect="groq",
        granularity="call",
        source=_GROQ_SOURCE,
        confidence=_GROQ_CONFIDENCE,
    )


_ALL = (
    Profile(
        name="gpu-h100x2-llama70b-fp8",
        kind="gpu",
        base_ms=8.0,
        per_prompt_token_ms=0.08,
        tpot_ms=Curve(17.7, 0.84, cap=93.0),
        slots=90,
        queue_sigma=0.1,
        decode_sigma=0.1,
        cache_block=16,
        dialect="vllm",
        source="NVIDIA's NIM benchmark table, 5,000 tokens in and 500 out; TPOT there includes the prefills of others",
        confidence="good",
    ),
    Profile(
        name="gpu-oci-llama70b",
        kind="gpu",
        base_ms=20.0,
        per_prompt_token_ms=0.06,
        tpot_ms=Curve(16.9, 0.173),
        wait_ms=Curve(0.0, 1.5, 0.066),
        queue_sigma=0.1,
        decode_sigma=0.1,
        cache_block=16,
        dialect="vllm",
        source="Oracle's OCI benchmark page; wait fitted to its TTFT of 50, 90, 400 and 1,290 ms at 1, 16, 64 and 128",
        confidence="good",
    ),
    Profile(
        name="gpu-h100-llama8b",
        kind="gpu",
        base_ms=8.0,
        per_prompt_token_ms=0.015,
        tpot_ms=Curve(4.6, 0.0187, 0.000109),
        wait_ms=Curve(0.0, 0.4, 0.01),
        queue_sigma=0.1,
        decode_sigma=0.1,
        cache_block=16,
        dialect="vllm",
        source="NVIDIA's NIM benchmark table; wait fitted to its TTFT of 10, 67, 120 and 347 ms at 1, 50, 100 and 150",
        confidence="medium",
    ),
    _groqcloud("gpt-oss-120b", 2.0),
    _groqcloud("gpt-oss-20b", 1.0),
    _groqcloud("llama70b", 3.6),
    _groqcloud("llama8b", 1.8),
    Profile(
        name="groq3-lpx-gemma31b",
        kind="lpu",
        base_ms=8.0,
        per_prompt_token_ms=0.08,
        tpot_ms=Curve(0.29),
        cache_block=16,
        dialect="dynamo",
        source="Artificial Analysis (3,431 tokens/s, flat from 10K to 100K of context) through pages that cite it; "
        "prefill as on gpu-h100x2-llama70b-fp8",
        confidence="TPOT medium; TTFT unknown (hand-over from the GPU and stream slots are not public)",
    ),
    Profile(
        name="cerebras-gpt-oss-120b",
        kind="lpu",
        base_ms=170.0,
        per_prompt_token_ms=0.0,
        tpot_ms=Curve(0.56),
        source="Artificial Analysis",
        confidence="medium; what the length of a prompt costs is unknown",
    ),
)
PROFILES: dict[str, Profile] = {profile.name: profile for profile in _ALL}
