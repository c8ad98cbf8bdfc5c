"""A profile that is fitted to a simulated service is that service's own, jitter or not."""

from __future__ import annotations

import msgspec
import pytest
from probed import probed, simulated

from hotloop.lab.faults import FaultyTransport, Late
from hotloop.lab.probing.fitting import CannotFit, Known, fit
from hotloop.lab.probing.plan import FULL, QUICK, Cell
from hotloop.lab.probing.probe import ProbeReport
from hotloop.lab.probing.report import summary
from hotloop.lab.profilefile import load_profile
from hotloop.lab.profiles import Curve, Profile
from hotloop.lab.simtransport import SimulatedTransport

CROWDED = Profile(
    name="crowded",
    kind="gpu",
    base_ms=12.0,
    per_prompt_token_ms=0.1,
    tpot_ms=Curve(10.0, 0.5, 0.004),
    wait_ms=Curve(0.0, 0.6),
    interference=0.4,
    slots=64,
    queue_sigma=0.05,
    decode_sigma=0.05,
    cache_block=32,
    dialect="groq",
    granularity="call",
    rtt_ms=3.0,
)
ONE_BY_ONE = Profile(
    name="one by one",
    kind="lpu",
    base_ms=5.0,
    per_prompt_token_ms=0.5,
    tpot_ms=Curve(8.0),
    slots=1,
    queue_sigma=0.1,
    decode_sigma=0.02,
    cache_block=1,
    dialect="llamacpp",
)
FEW_PLACES = Profile(
    name="few places",
    kind="lpu",
    base_ms=20.0,
    per_prompt_token_ms=0.05,
    tpot_ms=Curve(2.0),
    wait_ms=Curve(0.0, 1.5),
    slots=12,
    queue=20,
    queue_sigma=0.05,
    granularity="burst",
)
SERVICES = [CROWDED, ONE_BY_ONE, FEW_PLACES] + [
    load_profile(name) for name in ("gpu-h100x2-llama70b-fp8", "gpu-oci-llama70b", "groqcloud-llama8b")
]


def fitted(profile: Profile, cells: tuple[Cell, ...] = FULL, *, asking: bool = True) -> Profile:
    """What a probe makes of a service with this profile."""
    report = probed(simulated(profile), cells, asking=asking, dialect=profile.dialect).report(replayed=False)
    assert report.fit is not None, report.why_not
    return report.fit.profile


@pytest.fixture(scope="module")
def crowded() -> ProbeReport:
    """All that a probe finds about a busy GPU."""
    return probed(simulated(CROWDED), dialect="groq").report()


def times(profile: Profile) -> dict[str, list[float]]:
    """The times that a profile stands for, at loads that every service here takes."""
    most = min(profile.slots or 100, 100)
    loads = sorted({1, most // 3 or 1, most})
    return {
        "before": [profile.base_ms, profile.rtt_ms, profile.per_prompt_token_ms],
        "waits": [profile.base_ms + profile.wait_ms.at(load - 1) for load in loads],
        "tpot": [profile.tpot_ms.at(load) for load in loads],
        "interference": [profile.interference],
    }


def traits(profile: Profile) -> list[object]:
    """What is not a time."""
    return [getattr(profile, name) for name in ("kind", "slots", "queue", "cache_block", "dialect", "granularity")]


@pytest.mark.parametrize("profile", SERVICES, ids=lambda profile: profile.name)
def test_a_fitted_profile_is_the_services_own(profile):
    found = fitted(profile)
    assert traits(found) == traits(profile)
    own = times(profile)
    for what, values in times(found).items():
        assert values == pytest.approx(own[what], rel=0.05, abs=1e-6), what
    assert found.queue_sigma == pytest.approx(profile.queue_sigma, rel=0.3, abs=0.001)
    assert found.decode_sigma == pytest.approx(profile.decode_sigma, rel=0.3, abs=0.001)


def test_the_curves_are_found_term_by_term(crowded):
    found = crowded.fit.profile
    assert msgspec.structs.astuple(found.tpot_ms)[:3] == pytest.approx((10.0, 0.5, 0.004), rel=0.05)
    assert msgspec.structs.astuple(found.wait_ms)[:3] == pytest.approx((0.0, 0.6, 0.0), rel=0.05)


STEADY, *PROMPTS = FULL[:4]
TEN, FIFTY, BESIDE = FULL[8], FULL[9], FULL[11]


@pytest.mark.parametrize(
    ("changed", "what", "cells"),
    [
        ({"base_ms": 13.5}, "before", (STEADY, *PROMPTS)),
        ({"per_prompt_token_ms": 0.11}, "before", (STEADY, *PROMPTS)),
        ({"tpot_ms": Curve(10.0, 0.6, 0.004)}, "tpot", (STEADY, TEN, FIFTY)),
        ({"wait_ms": Curve(0.0, 0.7)}, "waits", (STEADY, *PROMPTS, TEN, FIFTY)),
        ({"interference": 0.5}, "interference", (STEADY, *PROMPTS, TEN, BESIDE)),
    ],
)
def test_a_service_that_is_a_tenth_slower_is_told_from_it(changed, what, cells):
    slower = fitted(msgspec.structs.replace(CROWDED, **changed), cells, asking=False)
    assert times(slower)[what] != pytest.approx(times(CROWDED)[what], rel=0.05)


def test_what_the_service_does_not_tell_is_seen_in_the_times():
    silent = msgspec.structs.replace(CROWDED, dialect="ollama", cache_block=16)
    found = fitted(silent)
    assert (found.rtt_ms, found.cache_block, found.reports) == (0.0, 16, False)
    assert found.base_ms == pytest.approx(15.0, rel=0.05)
    assert found.per_prompt_token_ms == pytest.approx(0.1, rel=0.05)


def test_stragglers_do_not_move_it():
    slow = [Late(0.5) if number % 20 == 7 else None for number in range(1000)]
    probe = probed(FaultyTransport(simulated(CROWDED), slow), FULL[:4], asking=False, dialect="groq")
    found = probe.report(replayed=False).fit.profile
    assert (found.base_ms, found.per_prompt_token_ms) == pytest.approx((12.0, 0.1), rel=0.05)
    assert summary(probe.found[0].asked).stragglers == 5


def test_a_simulation_with_the_profile_is_like_the_service(crowded):
    assert [each.title for each in crowded.replayed] == [cell.title for cell in FULL]
    for each in crowded.replayed:
        simulated_times = (each.simulated_ttft_ms, each.simulated_tpot_ms)
        assert simulated_times == pytest.approx((each.ttft_ms, each.tpot_ms), rel=0.1), each.title


def test_a_quick_probe_finds_the_times_of_a_service_at_rest():
    found = fitted(CROWDED, QUICK)
    assert (found.base_ms, found.per_prompt_token_ms, found.tpot_ms.at(1)) == pytest.approx((12, 0.1, 10.5), rel=0.1)


@pytest.mark.parametrize("seed", range(4))
def test_a_quick_probe_does_not_take_a_gpu_for_an_lpu(seed):
    service = simulated(load_profile("gpu-h100-llama8b"), seed)  # 3 % slower at 8 at once, with 10 % of jitter
    found = probed(service, QUICK).report(replayed=False).fit
    assert (found.profile.kind, found.profile.slots, found.looked.at_once) == ("gpu", None, 8)
    assert found.looked.kind_told != ("cannot be told" in found.profile.confidence)


def test_what_came_one_at_a_time_does_not_tell_the_kind():
    found = probed(simulated(CROWDED), FULL[:1], asking=False).report(replayed=False).fit
    assert found.profile.confidence.startswith("medium, seen one at a time only; whether replies slow each other down")
    assert not found.looked.kind_told


@pytest.mark.parametrize("block", [1, 16, 32, 128])
@pytest.mark.parametrize("seed", range(3))
def test_a_quick_probe_finds_the_block_of_the_cache(block, seed):
    service = simulated(msgspec.structs.replace(CROWDED, cache_block=block), seed)
    assert probed(service, QUICK).report(replayed=False).fit.profile.cache_block == block


def test_a_full_probe_that_fits_is_good(crowded):
    assert crowded.fit.profile.confidence.startswith("good, seen up to 100 at once; median error")


def test_deviations_and_confidence_tell_noise():
    quiet = probed(
        simulated(msgspec.structs.replace(CROWDED, queue_sigma=0.0, decode_sigma=0.0)), QUICK, dialect="groq"
    )
    noisy = probed(
        simulated(msgspec.structs.replace(CROWDED, queue_sigma=0.6, decode_sigma=0.6)), QUICK, dialect="groq"
    )
    near, far = (probe.report(replayed=False).fit for probe in (quiet, noisy))
    assert near.deviations["ttft"].p95 < 0.03 < 0.1 < far.deviations["ttft"].p95
    assert near.profile.confidence.startswith("medium, seen up to 8 at once; median error / p95 of it: ttft ")
    assert far.deviations["tpot"].median > 0.1
    assert near.profile.fit_error.keys() == near.deviations.keys() == {"ttft", "tpot", "reply"}


@pytest.mark.parametrize("cells", [(), (Cell("at once", 100, 4, at_once=4),), (Cell("steady", 100, 3, max_tokens=1),)])
def test_too_little_is_no_profile(cells):
    with pytest.raises(CannotFit):
        fit(probed(simulated(CROWDED), cells, asking=False).found, Known("m"))


def test_a_buffered_service_has_no_profile():
    probe = probed(SimulatedTransport(["one " * 50], ttft=0.2), FULL[:1], asking=False)
    report = probe.report()
    assert report.fit is None
    assert "streamed" in report.why_not
    assert summary(probe.found[0].asked).buffered == 100
