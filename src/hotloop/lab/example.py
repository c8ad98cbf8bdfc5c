"""A value that satisfies a JSON Schema, taken from a person's words where one fits."""

from __future__ import annotations

from typing import Any

from hotloop.lab.leaf import CannotExemplify, Schema, Word, leaf, schema_type, words

_DEEPEST = 8


def example(schema: Schema, text: str = "") -> Any:
    """A value for `schema`: its constant, else a word of `text` that fits, else one of its examples, else made up.

    Objects get their required properties. Raises CannotExemplify when nothing is found, as for a pattern with a
    lookahead.
    """
    return _Maker(schema, words(text)).value(schema, "", 0)


class _Maker:
    """Walks a schema; `root` holds what its references point at."""

    def __init__(self, root: Schema, said: list[Word]) -> None:
        self._root = root
        self._said = said

    def value(self, schema: Schema, name: str, depth: int) -> Any:
        if depth > _DEEPEST:
            raise CannotExemplify(f"The schema of {name!r} nests too deep to make up a value.")
        schema = self._flat(schema)
        if options := schema.get("anyOf") or schema.get("oneOf"):
            return self._any_of(schema, options, name, depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._choice(schema["enum"])
        kind = schema_type(schema)
        if kind == "object":
            return self._object(schema, name, depth)
        return self._array(schema, name, depth) if kind == "array" else leaf(schema, name, self._said)

    def _flat(self, schema: Schema) -> Schema:
        """`schema` with its references and `allOf` parts written out."""
        for _ in range(_DEEPEST):
            if "$ref" in schema:
                schema = {**self._target(schema["$ref"]), **_without(schema, "$ref")}
            elif "allOf" in schema:
                parts = (*schema["allOf"], _without(schema, "allOf"))
                schema = {key: value for part in parts for key, value in part.items()}
        return schema

    def _target(self, reference: str) -> Schema:
        found: Any = self._root
        for key in reference.removeprefix("#").strip("/").split("/"):
            found = found.get(key) if isinstance(found, dict) else None
        if not isinstance(found, dict):
            raise CannotExemplify(f"The schema has no {reference!r}.")
        return found

    def _any_of(self, schema: Schema, options: list[Schema], name: str, depth: int) -> Any:
        rest = _without(schema, "anyOf", "oneOf")
        failed: CannotExemplify | None = None
        for option in options:
            try:
                return self.value({**rest, **option}, name, depth + 1)
            except CannotExemplify as error:
                failed = failed or error
        raise failed or CannotExemplify(f"{name!r} has no options.")

    def _choice(self, options: list[Any]) -> Any:
        said = {word.text.lower() for word in self._said}
        return next((option for option in options if str(option).lower() in said), options[0])

    def _object(self, schema: Schema, name: str, depth: int) -> dict[str, Any]:
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        count = max(len(required), schema.get("minProperties", 0))
        chosen = list(dict.fromkeys([*required, *properties]))[:count]
        made = {key: self.value(properties.get(key, {}), key, depth + 1) for key in chosen}
        others = schema.get("additionalProperties")
        for number in range(count - len(made)):
            made[f"key{number}"] = self.value(others if isinstance(others, dict) else {}, name, depth + 1)
        return made

    def _array(self, schema: Schema, name: str, depth: int) -> list[Any]:
        items = schema.get("items", {})
        fixed = schema.get("prefixItems", [])
        least = schema.get("minItems", 0)
        count = max(least, len(fixed), min(1, schema.get("maxItems", 1)) if items else 0)
        schemas = [*fixed, *[items if isinstance(items, dict) else {}] * (count - len(fixed))]
        try:
            made = [self.value(each, name, depth + 1) for each in schemas]
        except CannotExemplify:
            if least:
                raise
            return []
        if schema.get("uniqueItems") and any(each in made[:place] for place, each in enumerate(made)):
            raise CannotExemplify(f"{name!r} wants {least} different items, which cannot be made up.")
        return made


def _without(schema: Schema, *keys: str) -> Schema:
    return {key: value for key, value in schema.items() if key not in keys}
