import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.models.sizes import (
    PER_TOKEN,
    estimated_tokens,
    most_characters,
    sure_characters,
    text_size,
    text_tokens,
)


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a" * 400, 100), ("汉" * 100, 100), ("a" * 40 + "汉" * 10, 20)])
def test_tokens_of_a_text(text, tokens):
    assert estimated_tokens(text.encode()) == estimated_tokens(bytearray(text.encode())) == tokens


@given(text=st.text(alphabet=st.sampled_from("a {汉é😀\ud800"), max_size=60))
def test_a_text_is_measured_without_counting_it_where_that_will_do(text):
    data = text.encode(errors="surrogatepass")
    tokens = text_tokens(text)
    assert tokens == estimated_tokens(data)
    assert tokens <= text_size(text) // PER_TOKEN <= tokens + 1
    assert len(text) <= most_characters(text_size(text))
    assert text_tokens(text[: sure_characters(20)]) <= 20


def test_sizes_can_be_added_up():
    assert text_size("abc") + text_size("汉é") + text_size("😀") == text_size("abc汉é😀")
