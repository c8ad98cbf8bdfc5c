"""How fast traces of other frameworks are read: python benchmarks/foreign/speed.py [TRACES]

Makes a file of so many small traces (10,000 if nothing is said) out of a sample, each with an id of its own, and reads
it as `hotloop trace import` does, without the store. Times are of the processor.
"""

from __future__ import annotations

import gzip
import resource
import sys
import tempfile
import time
from pathlib import Path

from hotloop.trace.importing.files import read_otlp
from hotloop.units import NS_PER_S

SAMPLES = Path(__file__).resolve().parent.parent.parent / "tests" / "data" / "otel"
OF_SPANS = {"agno-parallel.jsonl": 5, "pydantic_ai-parallel.jsonl": 7, "langgraph-parallel.jsonl.gz": 19}
TRACES = 10_000


def copies(sample: str, number: int, path: Path) -> int:
    """Write so many copies of a sample, a line each; the bytes that they are."""
    data = (SAMPLES / sample).read_bytes()
    (line,) = (gzip.decompress(data) if sample.endswith(".gz") else data).splitlines()
    start = line.index(b'"traceId":"') + len(b'"traceId":"')
    trace_id = line[start : start + 32]
    with path.open("wb") as file:
        for place in range(number):
            file.write(line.replace(trace_id, b"%032x" % (place + 1)) + b"\n")
    return path.stat().st_size


def main() -> int:
    """Time each sample."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else TRACES
    print("traces of           spans each    MB        CPU    a trace    peak memory")
    for sample, spans in OF_SPANS.items():
        with tempfile.TemporaryDirectory() as folder:
            size = copies(sample, number, Path(folder) / "traces.jsonl")
            began = time.process_time_ns()
            read = sum(1 for _ in read_otlp(Path(folder) / "traces.jsonl"))
            took = time.process_time_ns() - began
        assert read == number
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        name, milliseconds = sample.partition("-")[0], took / number / 1e6
        row = f"{name:<19} {spans:>10} {size / 1e6:>5.0f} {took / NS_PER_S:>8.1f} s {milliseconds:>7.2f} ms"
        print(f"{row} {peak:>11,.0f} MB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
