"""YAML that others have written, for whoever loads it.

libyaml's loader recurses without a bound: on some thousand levels it overflows the stack, which ends
the process. Aliases and merged keys make gigabytes of a few lines. Nothing that is read here needs
either.
"""

from typing import Final

import yaml

DEEPEST: Final = 32  # levels
_LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def is_plain(text: str) -> bool:
    """Whether a text may be loaded: YAML of at most DEEPEST levels, and without aliases."""
    deep = 0
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.CollectionStartEvent):
                deep += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                deep -= 1
            if deep > DEEPEST or isinstance(event, yaml.AliasEvent):
                return False
    except (yaml.YAMLError, ValueError):
        return False
    return True
