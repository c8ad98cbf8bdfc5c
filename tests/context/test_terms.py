"""The terms of a text: what two texts can have in common."""

from __future__ import annotations

import pytest

from hotloop.context.terms import terms


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Shipping, shipped and shipments", "ship ship ship"),
        ("Please show me what you have", ""),
        ("帮我查询订单的状态", "我查 询订 订单 单的 的状 状态"),
        ("東京タワー", "東京 京タ タワ ワー"),
        ("Order 20250101 at BA123", "ord 20250101 ba 123"),
        ("Любит зелёный чай", "любит зелёный чай"),
        ("naïve café, größe", "naïv café größ"),
        ("猫", ""),
        ("", ""),
    ],
)
def test_the_terms_of_a_text(text: str, wanted: str) -> None:
    assert list(terms(text)) == wanted.split()
