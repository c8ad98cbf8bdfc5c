import itertools

import pytest
from thinkers import FakeThinker, ask_of, router_of

from hotloop.errors import ConfigError
from hotloop.lab.virtual import run_virtual
from hotloop.models.routing.classifier import RouteClassifier
from hotloop.models.routing.features import features
from hotloop.models.routing.records import Record, good_enough, read_records
from hotloop.models.routing.routed import RoutedThinker
from hotloop.models.routing.training import train

EASY = ("where is order {}?", "status of parcel {}", "订单 {} 在哪里？", "opening hours on day {}")
HARD = (
    "compare plan {}",
    "prove theorem {}",
    "证明定理 {}",
    "write a contract for case {}",
)


def labels(numbers):
    easy = {text.format(number): "fast" for text, number in itertools.product(EASY, numbers)}
    return easy | {text.format(number): "strong" for text, number in itertools.product(HARD, numbers)}


@pytest.fixture(scope="module")
def training():
    return train(labels(range(10)))


def test_it_learns_what_tells_routes_apart(training):
    unseen = labels(range(100, 110))
    assert all(training.classifier.predict(prompt)[0] == route for prompt, route in unseen.items())
    assert training.prompts == {"fast": 40, "strong": 40}
    assert training.held_out[0].decided == 1.0
    assert training.held_out[0].right > 0.95


def test_three_routes_can_be_learned():
    three = labels(range(5)) | {f"translate sentence {number} into French": "medium" for number in range(20)}
    classifier = train(three).classifier
    assert set(classifier.routes) == {"fast", "medium", "strong"}
    assert classifier.predict("translate sentence 99 into French")[0] == "medium"


def test_shares_are_those_of_scikit_learn(training):
    """Pure Python says what the trained model says: the shares of all routes add up, and an even choice is even."""
    classifier = training.classifier
    even = RouteClassifier(routes=("a", "b"), bias=(0.0, 0.0), weights={})
    assert even.predict("anything") == ("a", 0.5)
    known = min(features("prove theorem 1") & classifier.weights.keys())
    assert sum(classifier.weights[known]) == pytest.approx(0, abs=1e-3)


def test_a_classifier_survives_its_file(training, tmp_path):
    path = tmp_path / "routes.json"
    training.classifier.save(path)
    assert RouteClassifier.load(path) == training.classifier
    assert path.stat().st_size < 100_000


def test_it_decides_if_it_is_sure_and_else_the_default(training):
    router = router_of("fast", "strong", default="strong", classifier=training.classifier)

    async def route(prompt):
        ask, _ = ask_of(prompt)
        thinkers = {name: FakeThinker(name) for name in router.models}
        reply = await RoutedThinker(router, thinkers).think(ask)
        return reply.text, ask.ledger.facts["routes"][0].why

    text, why = run_virtual(route("where is order 77?"))
    assert text == "fast"
    assert why.startswith("classifier, ")
    text, why = run_virtual(route("hm"))
    assert text == "strong"
    assert why.startswith("default: the classifier is ")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "There is no file"),
        (b"{}", "has no classifier of routes"),
        (b"\xff", "has no classifier of routes"),
        (b'{"routes":["a"],"bias":[0],"weights":{},"confidence":2}', "has no classifier of routes.*from 0 to below 1"),
        (b'{"routes":[],"bias":[],"weights":{}}', "has no classifier of routes.*has no routes"),
        (b'{"routes":["a"],"bias":[0,1],"weights":{}}', "A bias of the classifier is for 2 routes of 1"),
        (b'{"routes":["a","b"],"bias":[0,1],"weights":{"7":[1]}}', "A weight of the classifier is for 1 routes of 2"),
    ],
)
def test_a_file_without_a_classifier_is_refused(tmp_path, content, sentence):
    path = tmp_path / "routes.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=sentence):
        RouteClassifier.load(path)


def test_too_little_to_learn_from_is_refused():
    with pytest.raises(ConfigError, match="there are 2 for fast, 1 for strong"):
        train({"a": "fast", "b": "fast", "c": "strong"})
    with pytest.raises(ConfigError, match="there are none"):
        train({})


def test_the_cheapest_route_that_was_right_is_the_label():
    records = [
        Record("easy", "fast", right=True),
        Record("hard", "fast", right=False),
        Record("hopeless", "fast", right=False),
        Record("easy", "strong", right=True),
        Record("hard", "strong", right=True),
        Record("hopeless", "strong", right=False),
    ]
    assert good_enough(records) == {"easy": "fast", "hard": "strong"}
    assert good_enough(records, ["strong", "fast"]) == {"easy": "strong", "hard": "strong"}


def test_a_route_that_failed_may_have_been_good_enough():
    records = [
        Record("lost", "fast", right=None),
        Record("easy", "fast", right=True),
        Record("again", "fast", right=None),
        Record("again", "fast", right=True),
        Record("hard", "fast", right=False),
        Record("lost", "strong", right=True),
        Record("easy", "strong", right=None),
        Record("hard", "strong", right=None),
    ]
    assert good_enough(records) == {"easy": "fast", "again": "fast"}


def test_records_are_lines_of_json(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text('{"prompt":"a","route":"x","right":true}\n\n{"prompt":"b","route":"y","right":null,"ms":3}\n')
    assert read_records(path) == [Record("a", "x", right=True), Record("b", "y", right=None)]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('{"prompt":"b","right":true}', "missing key route"),
        ('{"prompt":"b","route":"x"}', "missing key right"),
        ('{"prompt":"b","route":"x","right":"yes"}', "right: expected true or false"),
        ("prompt", "not valid JSON"),
    ],
)
def test_a_line_that_is_no_record_is_named(tmp_path, line, sentence):
    path = tmp_path / "records.jsonl"
    path.write_text('{"prompt":"a","route":"x","right":true}\n' + line)
    with pytest.raises(ConfigError, match=rf"records\.jsonl:2: {sentence}"):
        read_records(path)


@pytest.mark.parametrize("prompt", ["", "a", "订单", "\ud800", "😀" * 3000])
def test_any_prompt_has_features(prompt):
    assert features(prompt) == features(prompt)
    assert len(features(prompt)) < 6000
