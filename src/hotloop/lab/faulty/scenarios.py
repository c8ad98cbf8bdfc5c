"""Agents that are as they should be, on services of several kinds: what faults are planted in."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from hotloop.lab.faulty.setup import Lookup, Setup, Step
from hotloop.lab.profiles import Profile
from hotloop.lab.profiletable import PROFILES


def _desk(seed: int) -> Setup:
    """Many tools at work: three side by side, then two that need what these have found; an 8B model on a GPU."""
    return Setup(
        name="desk",
        seed=seed,
        profile=_told("gpu-h100-llama8b"),
        tools={"orders": Lookup(0.09), "stock": Lookup(0.07), "prices": Lookup(0.05), "carriers": Lookup(0.08)},
        rounds=[[Step("orders"), Step("stock"), Step("prices")], [Step("carriers", "result"), Step("stock", "result")]],
        answer=70,
    )


def _chat(seed: int) -> Setup:
    """A conversation with long answers and one lookup in each of its turns; a 70B model on a GPU."""
    return Setup(
        name="chat",
        seed=seed,
        profile=_told("gpu-oci-llama70b"),
        tools={"faq": Lookup(0.06)},
        rounds=[[Step("faq")]],
        session=True,
        answer=100,
    )


def _manual(seed: int) -> Setup:
    """Instructions of thousands of tokens that the service has in its cache; a 70B model on two GPUs."""
    return Setup(
        name="manual",
        seed=seed,
        profile=_told("gpu-h100x2-llama70b-fp8"),
        tools={"rules": Lookup(0.12), "cases": Lookup(0.1)},
        rounds=[[Step("rules"), Step("cases")]],
        instructions=3000,
    )


def _fast(seed: int) -> Setup:
    """A fast chip, and quick tools."""
    return Setup(
        name="fast",
        seed=seed,
        profile=PROFILES["groqcloud-gpt-oss-20b"],
        tools={"orders": Lookup(0.02), "stock": Lookup(0.025), "carriers": Lookup(0.02)},
        rounds=[[Step("orders"), Step("stock")], [Step("carriers", "result")]],
        instructions=500,
        answer=80,
    )


def _crowd(seed: int) -> Setup:
    """Four users at once on one GPU-like service."""
    return replace(_desk(seed), name="crowd", at_once=4, runs=16)


def _mute(seed: int) -> Setup:
    """A service that tells nothing but its tokens."""
    profile = replace(PROFILES["gpu-h100-llama8b"], dialect="ollama")
    return replace(_desk(seed), name="mute", profile=profile)


def _messy(seed: int) -> Setup:
    """Nothing is twice alike: questions, answers, the service's times, those of the tools."""
    return Setup(
        name="messy",
        seed=seed,
        profile=replace(_told("gpu-h100-llama8b"), queue_sigma=0.4, decode_sigma=0.3),
        tools={"orders": Lookup(0.08, 0.5), "stock": Lookup(0.06, 0.5), "carriers": Lookup(0.06, 0.5)},
        rounds=[[Step("orders"), Step("stock")], [Step("carriers", "result")]],
        varied=0.5,
        runs=16,
        at_once=2,
    )


SCENARIOS: dict[str, Callable[[int], Setup]] = {
    "desk": _desk,
    "chat": _chat,
    "manual": _manual,
    "fast": _fast,
    "crowd": _crowd,
    "mute": _mute,
    "messy": _messy,
}


def _told(name: str) -> Profile:
    """The profile, of a service that was started to tell its times and cached tokens."""
    return replace(PROFILES[name], reports=True)
