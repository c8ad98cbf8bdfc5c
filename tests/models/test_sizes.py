import pytest

from hotloop.models.sizes import estimated_tokens


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a" * 400, 100), ("汉" * 100, 100), ("a" * 40 + "汉" * 10, 20)])
def test_tokens_of_a_text(text, tokens):
    assert estimated_tokens(text.encode()) == estimated_tokens(bytearray(text.encode())) == tokens
