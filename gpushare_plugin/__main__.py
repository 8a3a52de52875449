"""`python -m gpushare_plugin`: the command line."""

from gpushare_plugin.cli import main

main()
