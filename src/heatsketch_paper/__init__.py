"""The paper's figures and claims, from declarations to a page: ``heatsketch reproduce``.

Needs the libraries of the extra ``reproduce`` (matplotlib, pandas); they are imported when a name is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .catalogue import EXPERIMENTS
    from .figures import FIGURES
    from .pictures import DEFAULT_FORMATS
    from .reproduction import Reproduction, reproduce

_HOMES = {
    "DEFAULT_FORMATS": ".pictures",
    "EXPERIMENTS": ".catalogue",
    "FIGURES": ".figures",
    "Reproduction": ".reproduction",
    "reproduce": ".reproduction",
}

_EXTRA = {"markdown_it", "matplotlib", "pandas"}

__all__ = ["DEFAULT_FORMATS", "EXPERIMENTS", "FIGURES", "Reproduction", "reproduce"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(import_module(_HOMES[name], __name__), name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] not in _EXTRA:
            raise
        raise ModuleNotFoundError(
            f"reproducing the paper needs {missing.name}, which is not installed; install it with "
            "pip install 'heatsketch[reproduce]'.",
            name=missing.name,
        ) from missing
    globals()[name] = value
    return value
