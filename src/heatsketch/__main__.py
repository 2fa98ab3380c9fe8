"""``python -m heatsketch`` is the command ``heatsketch``."""

from .cli import main

main()
