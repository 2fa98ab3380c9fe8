"""What every layer may use: threads, memory, progress, files, optional libraries and how results show themselves."""
