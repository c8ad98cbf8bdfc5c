"""What `Agent(...)` is given: each mistake is told by the option's name."""

from __future__ import annotations

from typing import Any

import pytest

from hotloop import Agent, Model, empty_answer, refused_tool
from hotloop.context.settings import Context
from hotloop.errors import ConfigError

MODEL = Model(name="other", endpoint="http://host/v1")


def agent(**given: Any) -> Agent:
    return Agent(**{"model": "m", "endpoint": "http://host/v1", **given})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model": None}, "model is None; give a name, a Model or a Router."),
        ({"model": MODEL}, "Agent(endpoint=...): the model is a Model, which says that itself; leave it out."),
        ({"endpoint": 5}, 'The endpoint is 5; give a URL, "local" or a Transport.'),
        ({"budget": 5}, "Agent(budget=...): make it with Budget(...)."),
        ({"policy": {"retries": 1}}, "Agent(policy=...): make it with Policy(...)."),
        ({"name": "\ud800"}, "Agent(name=...): expected text, got half of a character"),
        ({"timeout": float("inf")}, "Agent(timeout=...): expected a number <= 1000000000."),
        ({"headers": {"x": 3}}, "Agent(headers[...]=...): expected text, got a whole number."),
        ({"tools": "look_up"}, "tools is 'look_up'; give a list of tools."),
        ({"fallback": MODEL}, "fallback is Model(name='other', endpoint='http://host/v1'); give a list of models"),
        ({"fallback": ["other"]}, "fallback is ['other']; give a list of models, made with Model(...)."),
        ({"context": 8000}, "Agent(context=...): make it with Context(...)."),
        ({"context": Context(summarizer="small")}, "Context(summarizer=...) is 'small'; make it with Model(...)."),
        ({"memory": "facts.db"}, "memory is 'facts.db'; make it with Memory(...)."),
        ({"sessions": 5}, 'sessions is 5; give a file, ":memory:" or a store.'),
        ({"sessions": ""}, "sessions is ''; give a file"),
        ({"busy": "wait"}, 'Agent(busy=...): expected "queue" or "reject" or "merge".'),
        ({"reject": "nonsense", "fallback": [MODEL]}, "reject is 'nonsense'; give a list of functions of a Reply"),
        ({"reject": empty_answer, "fallback": [MODEL]}, "reject is <function empty_answer"),
        ({"reject": [refused_tool, None], "fallback": [MODEL]}, "reject is [<function refused_tool"),
        ({"reject": [refused_tool]}, "There is no model to ask when reject finds something wrong: give fallback="),
    ],
)
def test_each_mistake_is_told_by_the_option(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        agent(**given)
    assert str(caught.value).startswith(said)


def test_what_may_follow_or_never_has_to_is_taken() -> None:
    agent(reject=[refused_tool], fallback=[MODEL])
    agent(reject=(), fallback=[MODEL])
    agent(reject=[])
