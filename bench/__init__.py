"""Benchmarks of the node daemon and the extender: what DESIGN calls fast, measured.

`python -m bench` prints each row beside a baseline that is measured in the same rounds,
because machines are noisy: the ratio is the figure. The daemon's is an empty grpc.aio
plugin, filter's a small Go server (`peers/`), which is built where Go is.

Rule 1: both sides are processes of their own and are called by the same client, this
process; its cost is in both figures alike.
Rule 2: nothing here decides a test. The exit code says whether everything ran, not
whether it was fast.

Where to start reading: `__main__`, then `calls`, `starts`, `rest` and `extender` (the
rows), and `subjects` (the processes that are measured).
"""
