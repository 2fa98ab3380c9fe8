"""Data in bands of rows on the workers of Dask: the same mathematics where one machine is not enough."""
