"""gRPC channels to sockets on this host."""

from pathlib import Path

import grpc.aio

OPTIONS = (
    # A proxy in the environment is for the network, not for a socket (grpc issue 9198).
    ("grpc.enable_http_proxy", 0),
    ("grpc.default_authority", "localhost"),
    # Else a new channel inherits the waits of an earlier one to a kubelet that is gone.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.max_receive_message_length", 64 << 20),
)


def socket_channel(path: Path) -> grpc.aio.Channel:
    """Return a channel to a socket; use it as an asynchronous context manager."""
    return grpc.aio.insecure_channel(f"unix:{path}", options=OPTIONS)
