"""Names of arguments: what is near a misspelt one, callables that say so, and signatures."""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, TypeVar, cast

from auglag.errors import OptionError

C = TypeVar("C", bound=Callable[..., Any])


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a misspelt name: '; did you mean ...?' or the list of what there is."""
    known = sorted(known)
    plain = {"".join(filter(str.isalnum, other.lower())): other for other in known}
    key = "".join(filter(str.isalnum, name.lower()))
    close = [
        other for short, other in plain.items() if len(short) > 2 and (key.startswith(short) or short.startswith(key))
    ]
    close = close or [plain[match] for match in difflib.get_close_matches(key, plain, n=1, cutoff=0.6)]
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(known)}"


def signature(function: Callable[..., Any]) -> inspect.Signature:
    """As `inspect.signature`, but annotations are not evaluated: their names need not be defined at run time."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.STRING)
    return inspect.signature(function)


def takes(function: Callable[..., Any], *arguments: Any) -> bool:
    """Whether a function can be called with these arguments, as far as its signature tells."""
    try:
        signature(function).bind(*arguments)
    except TypeError:
        return False
    except ValueError:  # compiled functions may have no signature
        return True
    return True


def suggesting(target: C) -> C:
    """A function, or a class with this decorator, names the nearest argument where a keyword is misspelt."""
    made: Any = target
    if not isinstance(target, type):
        return cast(C, _checked(made, made.__name__, {}))
    made.__init__ = _checked(made.__init__, made.__name__, {})
    return target


def suggesting_for(elsewhere: Mapping[str, str]) -> Callable[[C], C]:
    """The same for a function, of whose arguments some have names `elsewhere` that look like other ones."""

    def decorate(target: C) -> C:
        return cast(C, _checked(target, target.__name__, elsewhere))

    return decorate


def _checked(function: Callable[..., Any], name: str, elsewhere: Mapping[str, str]) -> Callable[..., Any]:
    parameters = signature(function).parameters.items()
    known = [key for key, one in parameters if key != "self" and one.kind is not inspect.Parameter.VAR_POSITIONAL]

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        for key in named:
            if key not in known:
                hint = nearest(elsewhere[key], [elsewhere[key]]) if key in elsewhere else nearest(key, known)
                raise OptionError(f"{name}() has no argument {key!r}{hint}")
        return function(*arguments, **named)

    return call
