"""Mutation testing: faults are put into the core of the library one at a time, and the tests must notice each."""
