"""The composition root: the one place that names what stands behind each seam.

`node` is the parts list of the node daemon, `cluster` that of its side towards the API
server, `card_record` what earlier starts left to it, `status` what it shows of itself.
What there is, what each part is given, and which of them run side by side.
`extender` is the parts list of the scheduler extender. Nothing is imported here: a process
is one of the two, and pays for its own parts alone.
"""
