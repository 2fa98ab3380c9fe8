"""The version, which the build took from the tag."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("heatsketch")
except PackageNotFoundError:  # run from its source, without having been installed
    __version__ = "0+unknown"
