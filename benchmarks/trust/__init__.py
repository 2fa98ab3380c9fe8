"""How hard heatsketch is to break: what was tried, what was found, what is promised and how it is tested."""
