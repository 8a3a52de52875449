"""The composition root: the one place that names what stands behind each seam.

`node` is the parts list of the node daemon, `cluster` that of its side towards the API
server. What there is, what each part is given, and which of them run side by side.
"""

from gpushare_plugin.app.node import NodeDaemon

__all__ = ["NodeDaemon"]
