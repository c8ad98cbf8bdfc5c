"""The metrics of runs, and what of a run goes into each. Their labels are names from bounded sets."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from hotloop.errors import ConfigError
from hotloop.trace.alerts.alert import Alert
from hotloop.trace.measured import Measured
from hotloop.trace.prometheus.quantiles import Quantiles
from hotloop.units import NS_PER_S

_BOUNDS = tuple(0.0001 * 2**place for place in range(21))  # seconds: 0.1 ms to 105 s
_MOST_NAMES = 100
_OTHER = "other"


class _Names:
    """The first names that came; all others are one."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def __call__(self, name: str) -> str:
        if name not in self._known and len(self._known) >= _MOST_NAMES:
            return _OTHER
        self._known.add(name)
        return name


class _Times:
    """One time, as a histogram, which adds up over processes, and as the percentiles of this one's last minutes."""

    def __init__(self, registry: CollectorRegistry, name: str, meaning: str, label: str = "") -> None:
        labels = [label] if label else []
        self._histogram = Histogram(f"hotloop_{name}_seconds", meaning, labels, buckets=_BOUNDS, registry=registry)
        last = f"{meaning} Percentiles of the last 10 minutes, at most 1,000 values."
        self._quantiles = Quantiles(f"hotloop_{name}_quantile_seconds", last, label)
        registry.register(self._quantiles)

    def observe(self, nanoseconds: int, of: str = "") -> None:
        """One more value."""
        seconds = nanoseconds / NS_PER_S
        (self._histogram.labels(of) if of else self._histogram).observe(seconds)
        self._quantiles.observe(of, seconds)


class Series:
    """All metrics, in a registry; `dropped` counts runs that nothing else is known of.

    Raises ConfigError for a registry that has them already.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        try:
            self._register(registry)
        except ValueError:
            raise ConfigError("There is a PrometheusExporter for this registry already; share that one.") from None
        self._model_name, self._tool_name, self._error_name = _Names(), _Names(), _Names()

    def _register(self, registry: CollectorRegistry) -> None:
        def times(name: str, meaning: str, label: str = "") -> _Times:
            return _Times(registry, name, meaning, label)

        def counter(name: str, meaning: str, *labels: str) -> Counter:
            return Counter(f"hotloop_{name}", meaning, labels, registry=registry)

        self._run = times("run", "Runs with an answer, end to end.")
        self._stage = times("stage", "What a kind of stage took of a run, on its critical path.", "stage")
        self._model = times("model", "Requests that were answered.", "model")
        self._first = times("first_token", "From the start of a request to its first token.", "model")
        self._token = times("token", "Time per output token of a reply.", "model")
        self._tool = times("tool", "Calls that a tool worked for, with their retries.", "tool")
        self._runs = counter("runs", "Runs, by how they ended.", "outcome")
        self._failures = counter("run_failures", "Runs that failed, by the class of the error.", "error")
        self._requests = counter(
            "requests", "Requests to models: why, and what came of them.", "model", "why", "outcome"
        )
        self._tokens = counter("tokens", "Tokens as services counted them; input has the cached ones.", "model", "kind")
        self._calls = counter("calls", "Calls of tools, by what came of them.", "tool", "outcome")
        self.dropped = counter("traces_dropped", "Runs that ended faster than they could be recorded.")
        labels = ("alert", "agent", "of")
        self._alerts = Gauge("hotloop_alert", "1 while an alert is on.", labels, registry=registry)
        self._began = counter("alerts", "Alerts that began.", *labels)

    def show(self, alert: Alert) -> None:
        """An alert has begun or is over."""
        labels = (alert.name, alert.agent, alert.of)
        self._alerts.labels(*labels).set(alert.began)
        if alert.began:
            self._began.labels(*labels).inc()

    def add(self, run: Measured) -> None:
        """One more run."""
        record = run.record
        self._runs.labels(record.outcome).inc()
        if record.outcome == "failed":
            self._failures.labels(self._error_name(record.error)).inc()
        if record.outcome == "ok":
            self._run.observe(run.took)
            for stage, took in run.stages.items():
                self._stage.observe(took, stage)
        self._add_requests(run)
        self._add_calls(run)

    def _add_requests(self, run: Measured) -> None:
        for request in run.record.attempts:
            model = self._model_name(request.model)
            self._requests.labels(model, request.why, request.outcome).inc()
            usage = request.usage
            counts = {"input": usage.input_tokens, "cached": usage.cached_tokens, "output": usage.output_tokens}
            for kind, count in counts.items():
                if count is not None:
                    self._tokens.labels(model, kind).inc(count)
        for reply in run.replies:
            self._model.observe(reply.end - reply.start, self._model_name(reply.model))
            if reply.first:
                self._first.observe(reply.first - reply.start, self._model_name(reply.model))
        for model, tpot in run.tpots:
            self._token.observe(tpot, self._model_name(model))

    def _add_calls(self, run: Measured) -> None:
        for tool, took in run.calls:
            self._tool.observe(took, self._tool_name(tool))
        offered = run.record.tools
        for turn in run.record.turns:
            for call in turn.calls:
                known = not offered or call.name in offered  # a model may make up any name
                self._calls.labels(self._tool_name(call.name) if known else _OTHER, call.outcome).inc()
