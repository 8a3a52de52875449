"""The node daemon: inventory, the kubelet side, health, status."""
