"""Configuration: read once at the entry, into one frozen value, and printed.

A setting has one name: `--memory-unit`, `GPUSHARE_MEMORY_UNIT` and the file's key
`memory-unit` are the same. Nothing below the entry reads the environment.
"""

from gpushare_plugin.config.node import NodeConfig
from gpushare_plugin.config.original_flags import TakenOver, take_over
from gpushare_plugin.config.sources import Setting, load_node_config, settings, shown

__all__ = [
    "NodeConfig",
    "Setting",
    "TakenOver",
    "load_node_config",
    "settings",
    "shown",
    "take_over",
]
