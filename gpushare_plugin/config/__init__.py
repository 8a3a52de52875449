"""Configuration: read once at the entry, into one frozen value, and printed.

A setting has one name: `--memory-unit`, `GPUSHARE_MEMORY_UNIT` and the file's key
`memory-unit` are the same. Nothing below the entry reads the environment.
"""

from gpushare_plugin.config.extender import ExtenderConfig
from gpushare_plugin.config.node import NodeConfig
from gpushare_plugin.config.original_environment import TakenEnvironment, take_over_environment
from gpushare_plugin.config.original_flags import TakenOver, take_over
from gpushare_plugin.config.sources import (
    load_extender_config,
    load_node_config,
    settings,
    shown,
)
from gpushare_plugin.config.table import Setting, settings_of

__all__ = [
    "ExtenderConfig",
    "NodeConfig",
    "Setting",
    "TakenEnvironment",
    "TakenOver",
    "load_extender_config",
    "load_node_config",
    "settings",
    "settings_of",
    "shown",
    "take_over",
    "take_over_environment",
]
