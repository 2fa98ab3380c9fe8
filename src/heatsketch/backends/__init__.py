"""Other ways to build the heat kernel and to multiply by it."""
