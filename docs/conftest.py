"""What pytest leaves alone here: the settings of the site, and what Sphinx writes while it builds it."""

collect_ignore = ["conf.py"]
collect_ignore_glob = ["gallery/*", "api/generated/*"]
