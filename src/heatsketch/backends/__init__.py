"""Other ways to build a kernel and to multiply by it: PyTorch on a GPU, Dask on a cluster.

A backend is loaded when one of its arrays or devices is given (:mod:`heatsketch._utils.registry`). It uses the packages
below; none of them imports it.
"""
