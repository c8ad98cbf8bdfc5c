"""Docstrings as people write them: three styles, two scripts."""

from __future__ import annotations

import pytest

from hotloop.tools.defining.docstring import parse

GOOGLE = """Look up
    an order.

    It may be old.

    Args:
        order_id (str): The number,
            eight digits.
        limit (Optional[int], optional): How many: at most.

    Returns:
        status: Not a parameter.
    """
NUMPY = """Look up an order.

    Parameters
    ----------
    order_id : str
        The number,
        eight digits.
    limit, other : int, optional
        How many: at most.

    Returns
    -------
    status : str
        Not a parameter.
    """
SPHINX = """Look up an order.

    :param str order_id: The number,
        eight digits.
    :param limit: How many: at most.
    :type limit: int
    :returns: status: Not a parameter.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX])
def test_each_style_gives_the_summary_and_the_parameters(text: str) -> None:
    docs = parse(text)
    assert docs.summary == "Look up an order."
    assert docs.parameters["order_id"] == "The number, eight digits."
    assert docs.parameters["limit"] == "How many: at most."
    assert "status" not in docs.parameters


def test_numpy_names_can_share_a_description() -> None:
    assert parse(NUMPY).parameters["other"] == "How many: at most."


def test_chinese_reads_on_without_spaces() -> None:
    docs = parse(
        """查询订单
        的状态。

        参数：
            order_id（str）：订单编号，
                八位数字
            limit: 数量
        返回：
            无
        """
    )
    assert docs.summary == "查询订单的状态。"
    assert docs.parameters == {"order_id": "订单编号，八位数字", "limit": "数量"}


def test_a_mix_of_scripts_keeps_its_spaces() -> None:
    assert parse("查询 order\nstatus 状态").summary == "查询 order status 状态"


@pytest.mark.parametrize("text", [None, "", "\n\n", "Args:\n    x: y"])
def test_without_a_first_paragraph_there_is_no_summary(text: str | None) -> None:
    assert parse(text).summary == ""


def test_the_summary_ends_where_a_section_begins() -> None:
    assert parse("Look up.\nArgs:\n    x: the x\n").summary == "Look up."
    assert parse("Look up.\n:param x: the x").summary == "Look up."
