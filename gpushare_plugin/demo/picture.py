"""What the story looks like: the one place that prints.

Rule: nothing that differs from run to run is printed (times, names of sockets), so
that a recording can be compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpushare_plugin.demo.peers import NODE, Peers

WIDTH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class CardRow:
    """One card in the closing table."""

    card: int
    model: str
    units: int
    allocated: int
    healthy: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRow:
    """One container in the closing table."""

    pod: str
    container: str
    units: int
    card: int


class Picture:
    """Prints the story as it goes."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(width=WIDTH, highlight=False)
        self._steps = 0

    def step(self, title: str, what: str) -> None:
        """Begin a step."""
        self._steps += 1
        self._console.print()
        self._console.print(f"[bold]{self._steps}. {title}[/bold] [dim]({what})[/dim]")

    def daemon(self, lines: Sequence[str]) -> None:
        """Show what the daemon logged."""
        self._said("daemon", "cyan", lines)

    def scheduler(self, lines: Sequence[str]) -> None:
        """Show what kube-scheduler did, or told the pod's user."""
        self._said("scheduler", "blue", lines)

    def extender(self, lines: Sequence[str]) -> None:
        """Show what the extender did."""
        self._said("extender", "green", lines)

    def kubelet(self, lines: Sequence[str]) -> None:
        """Show what the kubelet has."""
        self._said("kubelet", "magenta", lines)

    def api(self, lines: Sequence[str]) -> None:
        """Show what the API server has."""
        self._said("API", "yellow", lines)

    def checked(self, text: str, *, held: bool) -> bool:
        """Show a check, and return how it came out."""
        mark = "[bold green]✓[/bold green]" if held else "[bold red]✗ NOT SO:[/bold red]"
        self._console.print(f"   {mark} {text}")
        return held

    def tables(self, cards: Sequence[CardRow], pods: Sequence[PodRow]) -> None:
        """Show the cards and the pods."""
        card_table = Table("card", "model", "units", "allocated", "health", title=None)
        for card in cards:
            bar = "█" * card.allocated + "░" * (card.units - card.allocated)
            health = "healthy" if card.healthy else "unhealthy"
            used = f"{card.allocated:>2} {bar}"
            card_table.add_row(str(card.card), card.model, str(card.units), used, health)
        pod_table = Table("pod", "container", "units", "card", title=None)
        for pod in pods:
            pod_table.add_row(pod.pod, pod.container, str(pod.units), str(pod.card))
        self._console.print(Padding(card_table, (0, 0, 0, 3), expand=False))
        self._console.print(Padding(pod_table, (0, 0, 0, 3), expand=False))

    def the_end(self, *, held: bool) -> None:
        """Say how the story came out."""
        self._console.print()
        if held:
            self._console.print("[bold green]All of it happened as it should.[/bold green]")
        else:
            self._console.print("[bold red]Something did not happen as it should.[/bold red]")

    def how_to_play(self, peers: Peers) -> None:
        """Say what can be done with processes that are left running."""
        port = next(
            (line.fields["port"] for line in peers.daemon.lines if line.event == "status_pages"), ""
        )
        asked = next(
            (line.fields["port"] for line in peers.extender.lines if line.event == "listening"), ""
        )
        self._console.print(
            "\nStill running; Ctrl-C stops it. Try, in another terminal:\n"
            f"  curl -s http://127.0.0.1:{port}/metrics | grep gpushare_card\n"
            f"  curl -s http://127.0.0.1:{asked}/gpushare-scheduler/inspect/{NODE}\n"
            f"  echo 'xid gpu=0 code=79' >> {peers.events_path}\n"
            f"  echo 'lost gpu=0' >> {peers.events_path}\n"
            f"  echo 'back gpu=0' >> {peers.events_path}\n",
            soft_wrap=True,
        )

    def _said(self, who: str, colour: str, lines: Sequence[str]) -> None:
        grid = Table.grid(padding=(0, 1))
        grid.add_column(width=9)
        grid.add_column(overflow="fold")
        for number, line in enumerate(lines):
            grid.add_row(Text(who if number == 0 else "", style=colour), Text(line))
        self._console.print(Padding(grid, (0, 0, 0, 3), expand=False))
