"""NVML through `pynvml`: the one package that imports it.

All calls but `NvmlEvents.wait` come from one worker thread; NVML itself is
thread-safe. Nothing here decides what an answer means.
"""

from gpushare_plugin.adapters.nvml.source import NvmlSource

__all__ = ["NvmlSource"]
