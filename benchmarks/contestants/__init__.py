"""The contestants, one module each: `build(task)` gives a function that does one run and returns the answer.

Each passes every piece of the answer's text to its `on_text` as it comes, and runs in an environment of its own name
(`environments.py`), hotloop and the floor in the one that `overhead.py` runs in.

Some also have `converse(task)`, which begins a conversation in memory and gives a function that does one turn of it.
"""
