"""The decisions: values in, values out.

What belongs here: rules that hold whatever the outside looks like. What must
not: a clock, a file, a socket, an event loop, a log line, a third party.
"""
