"""The command line: one small file per command, which parses, calls the library and prints.

To add a command: a line in the table of `main.py`, and a module of that name here with `run(words)`.
"""
