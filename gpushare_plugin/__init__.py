"""gpushare: share GPUs by memory on Kubernetes.

Where to start reading: `app` builds the programs; from there
`node/supervisor`, `node/registration`, `node/service`, `node/allocator`, and
the decisions in `core`.
"""

__version__ = "0.1.0"
