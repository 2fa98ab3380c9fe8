"""Other ways to build a kernel and to multiply by it: PyTorch on a GPU, Dask on a cluster.

Each backend is found by its name when an array of its kind or a device is met (:mod:`heatsketch._utils.registry`). It
uses the packages below; none of them imports it.
"""
