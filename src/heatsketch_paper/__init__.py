"""The paper's figures and claims, from declarations to a page: ``heatsketch reproduce``.

The names below are imported when they are first used: they need matplotlib, which the extra ``reproduce`` installs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .pictures import DEFAULT_FORMATS
    from .reproduction import Reproduction, reproduce

_HOMES = {"DEFAULT_FORMATS": ".pictures", "Reproduction": ".reproduction", "reproduce": ".reproduction"}

__all__ = ["DEFAULT_FORMATS", "Reproduction", "reproduce"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from heatsketch._utils.extras import optional  # noqa: PLC0415

    optional("matplotlib", "reproduce the paper", "reproduce")
    return getattr(import_module(_HOMES[name], __name__), name)
