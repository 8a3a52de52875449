"""The product under a real Kubernetes: `make e2e`, or `python -m e2e`.

The programs (API server, kubelet, scheduler, ...) are built from their Go modules once
and kept; the cluster lives in namespaces of its own (network, mounts, processes), so two
runs at once do not meet, and nothing of it outlives the run.
Where to start reading: `__main__`, then `cluster.cluster`.
"""
