"""Parse YAML that others wrote: whatever it contains, the result is values or a ValueError.

The safe schema of PyYAML creates no Python objects, but that is not enough: nested aliases can turn
a kilobyte into more nodes than there are atoms, deep nesting exhausts the stack, a tag on an
unsuitable value raises an arbitrary error, and of a key that stands there twice the first value is
lost without a word.
"""

from typing import Any, Final

import yaml

YAML_CHARACTERS_MAX: Final = 256 * 1024
"""Limit for a text, and (twice this) for its size after its aliases are expanded."""
YAML_DEPTH_MAX: Final = 50
YAML_DIGITS_MAX: Final = 100


def parse_yaml(text: str) -> list[Any]:
    """Return the documents of a text, parsed by the safe schema of YAML; ValueError when that
    fails.
    """
    if len(text) > YAML_CHARACTERS_MAX:
        raise ValueError(f"it has {len(text)} characters, at most {YAML_CHARACTERS_MAX} are read")
    found = []
    try:
        loader = _Loader(text)
        while loader.check_data():  # type: ignore[no-untyped-call]
            found.append(loader.get_data())
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    except (AttributeError, KeyError, TypeError, ArithmeticError, RecursionError) as error:
        # The value does not fit its tag, as in `!!timestamp x`.
        raise ValueError(f"a value does not fit its tag ({error!r:.100})") from error
    return found


class _Loader(yaml.SafeLoader):
    """A loader that counts how large the aliases make a text, before it constructs any value."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        """Nesting depth of the node that is being composed."""
        self._size = 0
        """Characters and nodes so far; an aliased node counts at every use."""
        self._sizes: dict[int, int] = {}
        """Characters and nodes of each complete node, by the node's `id()`."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        before = self._size
        is_alias = self.check_event(yaml.AliasEvent)
        self._depth += 1
        self._refuse_if(self._depth > YAML_DEPTH_MAX, "values are nested too deeply")
        node = super().compose_node(parent, index)
        self._depth -= 1
        if is_alias:
            self._refuse_if(id(node) not in self._sizes, "an alias stands in what it names")
            self._size += self._sizes[id(node)]
        else:
            self._refuse_twice(node)
            text = node.value if isinstance(node, yaml.ScalarNode) else ""
            self._size += 1 + len(text)
            self._sizes[id(node)] = self._size - before
        self._refuse_if(self._size > 2 * YAML_CHARACTERS_MAX, "aliases make too much of it")
        return node

    def construct_yaml_int(self, node: Any) -> int:
        self._refuse_if(len(node.value) > YAML_DIGITS_MAX, "a number has too many digits")
        return int(super().construct_yaml_int(node))

    def _refuse_twice(self, node: Any) -> None:
        keys = node.value if isinstance(node, yaml.MappingNode) else ()
        seen: set[tuple[str, str]] = set()
        for key, _value in keys:
            if isinstance(key, yaml.ScalarNode):
                name = (key.tag, key.value)
                line = key.start_mark.line + 1
                self._refuse_if(
                    name in seen, f"{key.value} stands there twice, again in line {line}"
                )
                seen.add(name)

    def _refuse_if(self, is_wrong: bool, why: str) -> None:
        if is_wrong:
            raise yaml.YAMLError(why)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
