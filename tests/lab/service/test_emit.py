import pytest

from hotloop.lab.service.emit import Meter

MS = 1_000_000


def test_lateness_is_told_in_percentiles():
    meter = Meter()
    for place in range(1000):
        meter.wrote(place * MS // 100)
    stats = meter.stats()
    late = (stats.late_p50_ms, stats.late_p95_ms, stats.late_p99_ms, stats.late_ms)
    assert late == pytest.approx((5.0, 9.5, 9.9, 9.99))


def test_what_is_very_late_is_told_by_the_worst():
    meter = Meter()
    meter.wrote(2_000 * MS)
    assert meter.stats().late_p50_ms == meter.stats().late_ms == 2_000


def test_nothing_is_late_before_anything_is_written():
    stats = Meter().stats()
    assert (stats.late_p99_ms, stats.late_ms) == (0.0, 0.0)
