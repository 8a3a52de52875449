"""A Kubernetes cluster of real programs on one machine, inside the sandbox."""
