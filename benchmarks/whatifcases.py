"""The combinations of the benchmark of what-if: a world, what is changed about it, and the world after the change."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from whatifworlds import Say, Work, World, result_of

from hotloop import Context, Policy
from hotloop.insight.edits import (
    Cache,
    ContextCap,
    Eager,
    Edit,
    Hedge,
    Parallel,
    Plan,
    Prefetch,
    PrefixReuse,
    SeenCache,
    Service,
    ShapedResults,
    SingleFlight,
    ToolTime,
    Without,
)
from hotloop.lab.profiles import Curve, Profile
from hotloop.lab.profiletable import PROFILES

H100, OCI, SMALL = "gpu-h100x2-llama70b-fp8", "gpu-oci-llama70b", "gpu-h100-llama8b"
GROQ_20B, GROQ_120B, GROQ_70B, GROQ_8B = (
    f"groqcloud-{name}" for name in ("gpt-oss-20b", "gpt-oss-120b", "llama70b", "llama8b")
)
LPX, CEREBRAS = "groq3-lpx-gemma31b", "cerebras-gpt-oss-120b"
COLD_OCI = msgspec.structs.replace(PROFILES[OCI], name="gpu-oci without a prefix cache", cache_block=0)
QUIET = msgspec.structs.replace(PROFILES[OCI], name="gpu-oci, cached tokens not told", reports=False)
COLD_SLOW = Profile(
    name="slow reader", kind="gpu", base_ms=30, per_prompt_token_ms=0.25, tpot_ms=Curve(12.0, 0.4), queue_sigma=0.1
)
SLOTS = Profile(
    name="lpu with four slots", kind="lpu", base_ms=40, per_prompt_token_ms=0.1, tpot_ms=Curve(6.0), slots=4,
    queue_sigma=0.1, decode_sigma=0.1, cache_block=64,
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One combination. With `imported` the runs are known as another framework's spans would tell of them."""

    world: World
    edits: Sequence[Edit]
    after: World
    imported: bool = False

    @property
    def name(self) -> str:
        """What it is, in a few words."""
        told = ", as imported" if self.imported else ""
        return f"{self.world.name}{told}: {' + '.join(edit.label for edit in self.edits)}"


def _single(number: int, draw: random.Random) -> list[Say]:
    return [Say((("lookup", f"order {number}"),)), Say(words=draw.randint(20, 60))]


def _parallel(number: int, draw: random.Random) -> list[Say]:
    calls = tuple((name, f"order {number}") for name in ("status", "logistics", "customer"))
    return [Say(calls), Say(words=draw.randint(20, 60))]


def _announced(number: int, draw: random.Random) -> list[Say]:
    calls, answer = _parallel(number, draw)
    return [Say(calls.calls, before=draw.randint(6, 12)), answer]


def _fan(number: int, draw: random.Random) -> list[Say]:
    return [Say(tuple(("search", f"topic {number} {each}") for each in range(6))), Say(words=draw.randint(30, 80))]


def _serial(number: int, draw: random.Random) -> list[Say]:
    key, said = f"customer {number}", []
    for name in ("find", "orders", "track"):
        said.append(Say(((name, key),)))
        key = result_of(key, 12)
    return [*said, Say(words=draw.randint(20, 60))]


def _repeated(number: int, draw: random.Random) -> list[Say]:
    keys = [f"order {min(int(draw.paretovariate(0.7)), 40)}" for _ in range(2)]
    return [Say((("status", keys[0]), ("rates", keys[1]))), Say(words=draw.randint(20, 40))]


def _talking(number: int, draw: random.Random) -> list[Say]:
    if draw.random() < 0.5:
        return [Say(words=draw.randint(80, 160))]
    return [Say((("lookup", f"order {number}"),)), Say(words=draw.randint(80, 160))]


def _big(number: int, draw: random.Random) -> list[Say]:
    return [Say((("read", f"page {number}"),)), Say((("read", f"annex {number}"),)), Say(words=draw.randint(30, 60))]


def _mixed(number: int, draw: random.Random) -> list[Say]:
    kind = draw.choice((_single, _single, _serial, _parallel))
    return kind(number, draw)


LOOKUP = (Work("lookup", 0.15),)
SINGLE = World("single tool", OCI, LOOKUP, _single)
PARALLEL = World(
    "parallel tools", OCI, (Work("status", 0.15), Work("logistics", 0.18), Work("customer", 0.09)), _parallel
)
ANNOUNCED = PARALLEL.but(name="words before calls", profile=GROQ_20B, talk=_announced)
LATE = PARALLEL.but(name="tools that wait for the reply").retooled(options={})
FAN = World("six searches, two at once", SMALL, (Work("search", 0.3),), _fan, options={"max_parallel": 2})
SERIAL = World("dependent turns", OCI, tuple(Work(name, 0.1, size=12) for name in ("find", "orders", "track")), _serial)
LONG = World("long prompts", COLD_SLOW, LOOKUP, _single, prompt=(1200, 4000), instructions=1500)
TALKS = World("growing sessions", OCI, LOOKUP, _talking, sessions=5, prompt=(60, 240), pause=12)
REPEATED = World("repeated calls", GROQ_120B, (Work("status", 0.3), Work("rates", 0.25)), _repeated, pause=0.4)
TAIL = World("a tool with stragglers", GROQ_70B, (Work("lookup", 0.12, straggle=0.12, slower=8),), _single)
FALLBACK = World(
    "two models, one fails",
    GROQ_8B,
    LOOKUP,
    _single,
    faults="500:40%",
    second=OCI,
    policy=Policy(retries=0, breaker=None),
)
LOAD = World("sixteen or so at once", OCI, LOOKUP, _single, runs=200, pause=0.07)
BUSY = World("a busy GPU", H100, LOOKUP, _single, runs=200, pause=0.15)
SLOW_NOW = World("a service with stragglers", SMALL, LOOKUP, _single, runs=200, faults="slow*25:3%", warm=60)
BIG = World("long results", COLD_SLOW, (Work("read", 0.1, sigma=0.2, size=12_000),), _big, prompt=(20, 400))
CASCADE = World("a cheap model, then a strong one", GROQ_8B, LOOKUP, _single, second=OCI, cascade=True)
MIXED = World("runs of all kinds", OCI, (*LOOKUP, *PARALLEL.tools, *SERIAL.tools), _mixed, runs=150)
CROWD = World("long prompts at a busy GPU", OCI, LOOKUP, _single, runs=200, prompt=(1500, 4000), pause=0.6)
QUEUED = World("two requests at once", GROQ_20B, LOOKUP, _single, pause=0.09, policy=Policy(max_concurrent=2))


def _service(world: World, profile: str | Profile) -> Case:
    known = PROFILES[profile] if isinstance(profile, str) else profile
    return Case(world, [Service(known)], world.but(profile=known))


def _options(world: World, **options: object) -> World:
    return world.but(options=world.options | options)


def _also(case: Case, edit: Edit, after: World) -> Case:
    return Case(case.world, [*case.edits, edit], after)


def cases() -> list[Case]:
    """All of them."""
    groups = (_services, _tools, _acting, _caches, _prompts, _crowds, _chances, _together, _imported)
    return [case for group in groups for case in group()]


def _services() -> list[Case]:
    single = [_service(SINGLE, name) for name in (GROQ_20B, GROQ_70B, SMALL, LPX, CEREBRAS, H100)]
    parallel = [_service(PARALLEL, name) for name in (GROQ_20B, GROQ_120B, SMALL, CEREBRAS)]
    back = [_service(PARALLEL.but(profile=GROQ_120B), OCI), _service(SERIAL.but(profile=GROQ_8B), SMALL)]
    announced = [_service(ANNOUNCED, name) for name in (OCI, H100)]
    serial = [_service(SERIAL, name) for name in (GROQ_20B, GROQ_8B, H100, LPX)]
    other = [_service(LONG, GROQ_70B), _service(LONG, OCI), _service(TALKS, GROQ_120B), _service(TAIL, SMALL)]
    whole = PARALLEL.but(name="replies that come whole", options={"stream": False})
    second = Service(PROFILES[GROQ_70B], model="second")
    return [
        *single, *parallel, *back, *announced, *serial, *other,
        _service(SINGLE.but(name="cached tokens are not told", profile=QUIET), GROQ_70B),
        _service(MIXED, GROQ_70B),
        _service(MIXED, H100),
        Case(CASCADE, [second], CASCADE.but(second=GROQ_70B)),
        Case(CASCADE, [Service(PROFILES[SMALL], model="first")], CASCADE.but(profile=SMALL)),
        Case(FALLBACK, [second], FALLBACK.but(second=GROQ_70B)),
        Case(whole, [Service(PROFILES[GROQ_120B])], whole.but(profile=GROQ_120B)),
    ]  # fmt: skip


def _tools() -> list[Case]:
    slower, quicker = SINGLE.tool("lookup", seconds=0.45), SERIAL.tool("orders", seconds=0.03)
    steady = TAIL.tool("lookup", straggle=0.0)
    samples = [steady.tools[0].took(f"other {number}") for number in range(200)]
    return [
        Case(SINGLE, [ToolTime("lookup", factor=3)], slower),
        Case(SERIAL, [ToolTime("orders", factor=0.3)], quicker),
        Case(PARALLEL, [ToolTime("logistics", seconds=0.02)], PARALLEL.tool("logistics", seconds=0.02, sigma=0.0)),
        Case(TAIL, [ToolTime("lookup", samples=samples)], steady),
        Case(PARALLEL, [Without("logistics")], PARALLEL.tool("logistics", seconds=0.0)),
        Case(QUEUED, [Without("queue")], QUEUED.but(policy=Policy())),
    ]


def _acting() -> list[Case]:
    serial = _options(PARALLEL, max_parallel=1).but(name="tools one after the other")
    plan = _options(SERIAL, plan=True)
    slow_plan = SERIAL.but(profile=GROQ_70B)
    return [
        *(Case(FAN, [Parallel(places)], _options(FAN, max_parallel=places)) for places in (1, 3, 6)),
        Case(serial, [Parallel(8)], PARALLEL),
        Case(PARALLEL, [Parallel(1)], serial),
        Case(LATE, [Eager()], PARALLEL),
        Case(LATE.but(profile=GROQ_70B), [Eager()], PARALLEL.but(profile=GROQ_70B)),
        Case(PARALLEL, [Eager(on=False)], LATE),
        Case(SERIAL, [Plan()], plan),
        Case(SERIAL.but(profile=H100), [Plan()], plan.but(profile=H100)),
        Case(slow_plan, [Plan()], plan.but(profile=GROQ_70B)),
    ]


def _caches() -> list[Case]:
    kept = REPEATED.retooled(options={"read_only": True, "ttl": 600.0})
    short = REPEATED.retooled(options={"read_only": True, "ttl": 3.0})
    flight = REPEATED.but(name="repeated calls at once", pause=0.05)
    return [
        Case(REPEATED, [SeenCache(600.0)], kept),
        Case(REPEATED, [SeenCache(3.0)], short),
        Case(flight, [SingleFlight()], flight.retooled(options={"read_only": True, "scope": "global"})),
        Case(SINGLE, [Cache("lookup", 0.6)], SINGLE.tool("lookup", hits=0.6)),
        Case(SERIAL, [Cache("find", 0.9)], SERIAL.tool("find", hits=0.9)),
        Case(PARALLEL, [Cache("logistics", 0.5)], PARALLEL.tool("logistics", hits=0.5)),
    ]


def _prompts() -> list[Case]:
    warm = msgspec.structs.replace(COLD_SLOW, cache_block=16)
    talks, crowded = TALKS.but(profile=COLD_OCI), TALKS.but(name="sessions at a crowded service", profile=COLD_SLOW)
    capped = Context(limit=3000)
    return [
        Case(LONG, [PrefixReuse()], LONG.but(profile=warm)),
        Case(SERIAL.but(profile=COLD_OCI, prompt=(400, 900)), [PrefixReuse()], SERIAL.but(prompt=(400, 900))),
        Case(BIG, [ShapedResults(500)], _options(BIG, max_result=500)),
        Case(BIG.but(profile=GROQ_70B), [ShapedResults(1000)], _options(BIG, max_result=1000).but(profile=GROQ_70B)),
        Case(talks, [ContextCap(3000)], _options(talks, context=capped)),
        Case(talks, [PrefixReuse()], talks.but(profile=OCI)),
        Case(crowded, [ContextCap(3000)], _options(crowded, context=capped)),
        Case(crowded, [PrefixReuse()], crowded.but(profile=warm)),
        Case(crowded, [Service(COLD_SLOW), ContextCap(3000)], _options(crowded, context=capped)),
        _service(crowded, warm),
    ]


def _crowds() -> list[Case]:
    slots, many = LOAD.but(pause=0.11), LOAD.but(name="sixteen or so at once, many runs", runs=1200)
    return [
        _service(LOAD, H100),
        _service(LOAD, SMALL),
        _service(LOAD, GROQ_70B),
        _service(BUSY, OCI),
        _service(BUSY.but(profile=GROQ_120B), H100),
        _service(slots, SLOTS),
        _service(many, H100),
        _service(CROWD, H100),
        _service(CROWD, GROQ_70B),
        _service(CROWD.but(profile=GROQ_70B), OCI),
        Case(LOAD, [ToolTime("lookup", factor=3)], LOAD.tool("lookup", seconds=0.45)),
        Case(LOAD, [Service(PROFILES[SMALL], others=12)], LOAD.but(profile=SMALL)),
    ]


def _chances() -> list[Case]:
    hedged = SLOW_NOW.but(policy=Policy(hedge=True))
    lpu = SLOW_NOW.but(profile=GROQ_120B)
    return [
        Case(SLOW_NOW, [Hedge()], hedged),
        Case(lpu, [Hedge()], hedged.but(profile=GROQ_120B)),
        Case(SERIAL, [Prefetch(0.6)], SERIAL.but(ahead=0.6)),
        Case(PARALLEL.but(profile=GROQ_70B), [Prefetch(0.4)], PARALLEL.but(profile=GROQ_70B, ahead=0.4)),
    ]


def _together() -> list[Case]:
    early = PARALLEL.but(profile=GROQ_120B)
    planned = _options(SERIAL, plan=True).but(profile=GROQ_20B)
    six = _options(FAN, max_parallel=6).but(profile=GROQ_20B)
    kept = REPEATED.but(profile=SMALL).retooled(options={"read_only": True, "ttl": 600.0})
    shaped = _options(BIG, max_result=500).but(profile=OCI)
    crowd = LOAD.but(profile=H100).tool("lookup", seconds=0.05)
    return [
        _also(_service(LATE, GROQ_120B), Eager(), early),
        Case(LATE, [Eager(), Service(PROFILES[GROQ_120B])], early),
        _also(_service(SERIAL, GROQ_20B), Plan(), planned),
        _also(_service(FAN, GROQ_20B), Parallel(6), six),
        _also(_service(REPEATED, SMALL), SeenCache(600.0), kept),
        _also(_service(BIG, OCI), ShapedResults(500), shaped),
        _also(_service(LOAD, H100), ToolTime("lookup", factor=1 / 3), crowd),
        _also(_service(SINGLE, GROQ_8B), Cache("lookup", 0.6), SINGLE.but(profile=GROQ_8B).tool("lookup", hits=0.6)),
    ]


def _imported() -> list[Case]:
    serial = _options(LATE, max_parallel=1).but(name="tools one after the other")
    cold = msgspec.structs.replace(COLD_SLOW, cache_block=16)
    return [
        Case(LATE, [Service(PROFILES[GROQ_70B])], LATE.but(profile=GROQ_70B), imported=True),
        Case(serial, [Parallel(8)], LATE, imported=True),
        Case(serial, [Parallel(8), Service(PROFILES[SMALL])], LATE.but(profile=SMALL), imported=True),
        Case(SERIAL, [Service(PROFILES[GROQ_8B])], SERIAL.but(profile=GROQ_8B), imported=True),
        Case(LONG, [PrefixReuse()], LONG.but(profile=cold), imported=True),
        Case(MIXED, [ToolTime("lookup", factor=0.5)], MIXED.tool("lookup", seconds=0.075), imported=True),
    ]
