"""The command line: words to configurations, errors to exit codes.

What a command needs is imported when it runs, so that `--help` is quick and the
daemon does not carry what only a laptop needs.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from gpushare_plugin import __version__
from gpushare_plugin.config import (
    ExtenderConfig,
    NodeConfig,
    Setting,
    load_extender_config,
    load_node_config,
    settings_of,
    take_over,
    take_over_environment,
)
from gpushare_plugin.errors import ConfigError, GpushareError
from gpushare_plugin.logs import configure, event_logger

EXIT_CANNOT_WORK = 1
EXIT_BAD_CONFIGURATION = 2
EXTENDER_LARGE_BYTES = 4 << 20
"""A call about 5,000 nodes takes a dozen buffers of 200 KB, which stay in the heap."""

log = event_logger(__name__)


class NodeCommand(click.Command):
    """Takes over the original plugin's command line before click reads it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments, the original's flags among them."""
        taken = take_over(args)
        ctx.meta["gpushare.warnings"] = taken.warnings
        return super().parse_args(ctx, list(taken.arguments))


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="gpushare")
def gpushare() -> None:
    """Share GPUs by memory on Kubernetes."""


def _node(config_file: str | None, **given: str | None) -> None:
    """Run the node daemon: the kubelet's device plugin of this node.

    Each option is also an environment variable (GPUSHARE_MEMORY_UNIT) and a key of the
    YAML file (memory-unit); the option wins over the variable, that over the file.
    The original gpushare plugin's options are taken too.
    """
    import asyncio  # noqa: PLC0415

    from gpushare_plugin.app.node import NodeDaemon  # noqa: PLC0415
    from gpushare_plugin.process import run_until_stopped  # noqa: PLC0415

    for flag, reason in click.get_current_context().meta["gpushare.warnings"]:
        log.warning("option_without_effect", option=flag, reason=reason)
    flags, file = _given(given), _file(config_file)

    def load() -> NodeConfig:
        return load_node_config(flags, os.environ, file=file)

    async def run(config: NodeConfig) -> None:
        await NodeDaemon(config).run()

    asyncio.run(run_until_stopped(load, run))


def _extender(config_file: str | None, **given: str | None) -> None:
    """Run the scheduler extender: kube-scheduler asks it which GPU a pod goes to.

    It answers filter, prioritize, bind and preempt under /gpushare-scheduler/ on
    --listen-address, by default on loopback, beside a kube-scheduler of its own. Any
    other address has TLS, or --plain-http.

    Each option is also an environment variable (GPUSHARE_LISTEN_ADDRESS) and a key of the
    YAML file (listen-address); the option wins over the variable, that over the file.
    The original gpushare extender's variables are taken too: PORT, LOG_LEVEL, KUBECONFIG.
    """
    import asyncio  # noqa: PLC0415

    from gpushare_plugin.app.extender import ExtenderDaemon  # noqa: PLC0415
    from gpushare_plugin.process import run_until_stopped  # noqa: PLC0415

    for variable, reason in take_over_environment(os.environ).warnings:
        log.warning("variable_of_the_original", variable=variable, reason=reason)
    flags, file = _given(given), _file(config_file)

    def load() -> ExtenderConfig:
        return load_extender_config(flags, os.environ, file=file)

    async def run(config: ExtenderConfig) -> None:
        await ExtenderDaemon(config).run()

    asyncio.run(run_until_stopped(load, run, large_bytes=EXTENDER_LARGE_BYTES))


def _given(options: Mapping[str, str | None]) -> dict[str, str]:
    return {field: text for field, text in options.items() if text is not None}


def _file(named: str | None) -> Path | None:
    name = named or os.environ.get("GPUSHARE_CONFIG")
    return Path(name) if name else None


def _option(setting: Setting) -> click.Option:
    names = [setting.flag, setting.field]
    shown = "" if setting.default is None else f"  [default: {setting.default or 'none'}]"
    meaning = f"{setting.meaning}{shown}"
    if setting.is_switch:
        # A switch may stand alone; a value behind it is read like any other.
        return click.Option(names, is_flag=False, flag_value="on", metavar="on|off", help=meaning)
    return click.Option(names, metavar="VALUE", help=meaning)


_CONFIG_OPTION = click.Option(
    ["--config", "config_file"], metavar="FILE", help="YAML file with any of these settings"
)

gpushare.add_command(
    NodeCommand(
        "node",
        callback=_node,
        params=[_CONFIG_OPTION, *(_option(setting) for setting in settings_of(NodeConfig))],
        help=_node.__doc__,
    )
)
gpushare.add_command(
    click.Command(
        "extender",
        callback=_extender,
        params=[_CONFIG_OPTION, *(_option(setting) for setting in settings_of(ExtenderConfig))],
        help=_extender.__doc__,
    )
)


@gpushare.command()
@click.option("--keep", is_flag=True, help="Leave it running to play with, until Ctrl-C.")
def demo(*, keep: bool) -> None:
    """Show the main job on simulated GPUs: no cluster, no GPU."""
    from gpushare_plugin.demo import run_demo  # noqa: PLC0415

    sys.exit(0 if run_demo(keep=keep) else EXIT_CANNOT_WORK)


@gpushare.command()
@click.option("--node", metavar="NAME", help="The node.")
@click.option("--all-nodes", is_flag=True, help="Every node.")
@click.option(
    "--kubeconfig",
    metavar="FILE",
    envvar="KUBECONFIG",
    help="How to reach the API server; ~/.kube/config, or in a pod its service account.",
)
@click.option(
    "--resource-name",
    "renamed",
    metavar="RESOURCE",
    multiple=True,
    help="A resource that was renamed to this; it goes too. May be given again.",
)
@click.option("--dry-run", is_flag=True, help="Say what would go, and change nothing.")
def uninstall(
    *,
    node: str | None,
    all_nodes: bool,
    kubeconfig: str | None,
    renamed: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Take off the node objects what the node daemon wrote there.

    Delete the DaemonSet first, and give the kubelet the 5 minutes after which it forgets a
    plugin that has gone: what a daemon still serves comes back.
    """
    import asyncio  # noqa: PLC0415

    from gpushare_plugin.app.uninstall import Wanted, uninstall  # noqa: PLC0415

    if all_nodes == bool(node):
        raise click.UsageError("expected either --node NAME or --all-nodes")
    file = Path(kubeconfig).absolute() if kubeconfig else None
    wanted = Wanted(node=node or None, kubeconfig=file, renamed=renamed, dry_run=dry_run)
    asyncio.run(uninstall(wanted, click.echo))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; the exit code is 0, 1 (cannot work) or 2 (bad configuration)."""
    configure("info")
    # gRPC's C core has a log of its own, of lines that are not ours to explain.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        gpushare.main(args=arguments, prog_name="gpushare")
    except ConfigError as error:
        log.error("bad_configuration", error=error)
        sys.exit(EXIT_BAD_CONFIGURATION)
    except GpushareError as error:
        log.error("cannot_work", error=error)
        sys.exit(EXIT_CANNOT_WORK)
