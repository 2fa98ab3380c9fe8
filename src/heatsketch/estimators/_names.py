"""The names of the samples: nodes of a graph, the index of a frame; and the embedding handed out by them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Hashable
from functools import wraps
from inspect import unwrap
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted

from .._utils.array import to_numpy
from .._utils.extras import optional
from .._utils.registry import distributed_backend
from .._utils.typing import FloatArray
from ..kernel.graphs import is_graph, node_names


class Names:
    """Keeps what the samples of an embedding are called."""

    embedding_: FloatArray
    get_feature_names_out: Callable[[], NDArray[Any]]
    # The index of the frame that was fitted to, where that lies on a cluster.
    _frame_index: Any = None
    # A list, a pandas index, or None for samples without names; models of earlier versions have none.
    _sample_names: Any = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # scikit-learn wraps these methods when a class is made, so that they return frames; it knows the index of a
        # frame, and this is around it to know the nodes of a graph.
        super().__init_subclass__(**kwargs)
        for method in ("transform", "fit_transform"):
            if method in cls.__dict__:
                setattr(cls, method, _with_nodes(cls.__dict__[method]))

    @property
    def sample_names_(self) -> NDArray[Any]:
        """Names of the training samples, shape (n_samples,).

        The nodes of a networkx graph, the vertex attribute ``name`` of an igraph graph, the index of a pandas frame;
        0, 1, 2, ... where the samples have no names.
        """
        check_is_fitted(self)
        names = self._sample_names
        if names is None:
            return np.arange(len(self.embedding_))
        # One by one, for names may be tuples, of which NumPy would make a table.
        return np.fromiter(names, dtype=object, count=len(names)) if isinstance(names, list) else names.to_numpy()

    def _call_samples(self, names: Any) -> None:
        """Remember names that did not come with X."""
        self._sample_names = None if names is None else [str(name) for name in names]

    def _handed_out(self, Y: Any) -> FloatArray:
        """An embedding as it is; a tensor as an array where scikit-learn is to make a frame of it."""
        as_it_is = _get_output_config("transform", self)["dense"] == "default" or distributed_backend(Y) is not None
        handed: FloatArray = Y if as_it_is else to_numpy(Y)
        return handed

    def to_dict(self) -> dict[Hashable, FloatArray]:
        """The embedding as a dictionary from the name of a sample to its coordinates.

        This is the form in which networkx takes positions: ``networkx.draw(graph, pos=model.to_dict())``.

        Returns
        -------
        vectors : dict of ndarrays of shape (n_components,)
            In the order of the samples; of a copy, so that changing them does not change `embedding_`.
        """
        check_is_fitted(self)
        names = list(range(len(self.embedding_)) if self._sample_names is None else self._sample_names)
        try:
            name, times = Counter(names).most_common(1)[0]
        except TypeError as error:
            raise TypeError(
                f"the names of the samples, such as {names[0]!r}, cannot be keys of a dictionary ({error}); use "
                "to_frame(), or give the samples names that are text or numbers."
            ) from error
        if times > 1:
            raise ValueError(
                f"{times} samples are called {name!r}, and a dictionary would keep one of them; use to_frame(), or "
                "make the names unique."
            )
        return dict(zip(names, to_numpy(self.embedding_).copy(), strict=True))

    def to_frame(self) -> Any:
        """The embedding as a pandas frame.

        Returns
        -------
        frame : pandas.DataFrame of shape (n_samples, n_components)
            Its index holds the names of the samples, its columns are called as `get_feature_names_out` says.
        """
        check_is_fitted(self)
        elsewhere = distributed_backend(self.embedding_)
        if elsewhere is not None:
            return elsewhere.as_frame(self, self.embedding_)
        pandas = optional("pandas", "make a frame")
        index = _as_index(pandas, self._sample_names)
        return pandas.DataFrame(to_numpy(self.embedding_), index=index, columns=self.get_feature_names_out(), copy=True)


def _as_index(pandas: Any, names: Any) -> Any:
    """Names as a pandas index; tuples of one length have levels, as pandas has it, others stay whole."""
    if not isinstance(names, list):
        return names
    lengths = {len(name) if isinstance(name, tuple) else None for name in names}
    return pandas.Index(names, tupleize_cols=len(lengths) == 1 and lengths != {None})


def _with_nodes(method: Callable[..., Any]) -> Callable[..., Any]:
    """Give the frame that comes of a graph the names of its nodes."""

    @wraps(method)
    def named(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        elsewhere = distributed_backend(X)
        if elsewhere is not None:  # scikit-learn would gather it
            out = unwrap(method)(self, X, *args, **kwargs)
            kind = _get_output_config("transform", self)["dense"]
            if kind not in ("default", "pandas"):
                raise ValueError(f"set_output(transform={kind!r}) was asked for with a Dask array; use 'pandas'.")
            return out if kind == "default" else elsewhere.as_frame(self, out, X)
        out = method(self, X, *args, **kwargs)
        pandas = sys.modules.get("pandas")
        if pandas is not None and isinstance(out, pandas.DataFrame) and is_graph(X):
            out.index = _as_index(pandas, node_names(X))
        return out

    return named
