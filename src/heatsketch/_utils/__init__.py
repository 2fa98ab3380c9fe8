"""What every layer may use: threads, memory, progress, files, optional libraries and the display of results."""
