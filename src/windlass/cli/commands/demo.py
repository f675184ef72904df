"""`windlass demo`: a simulated cluster, live in the terminal; `make run` starts it.

On a terminal a generated week is simulated until Ctrl-C, with the dashboard beside it if its page
was built; without a terminal a day is simulated at full speed, with a line per hour. Either way it
ends with a comparison with the default scheduler on the same work.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from windlass.cli.demo_support.recording import option as record_option
from windlass.cli.format import counted

if TYPE_CHECKING:
    from rich.console import Console

    from windlass.cli.demo_support.dashboard import SimulationDashboard
    from windlass.sim.run import Simulation, SimulationMoment
    from windlass.sim.workload import Workload

HOUR = 3600
FRAMES_PER_SECOND = 5
SPEED = 600
"""The default speed on a terminal, in simulated seconds per second."""
BUSY_TIME = 14 * HOUR
"""The time of the single frame of --once and --picture, in the busiest hours of the day."""


@dataclass(frozen=True, slots=True)
class DemoPace:
    """The speed and the length of a demo."""

    speed: int | None
    """The simulated seconds per second; None for full speed."""
    seconds: float | None
    """The real seconds after which it stops; None to simulate to the end."""

    def is_over(self, began: float) -> bool:
        """Return whether the time is up, given the (monotonic) time at which it began."""
        return self.seconds is not None and time.monotonic() - began >= self.seconds


@click.command("demo")
@click.option("--seed", type=click.IntRange(min=0), help="The seed of the generated work.")
@click.option(
    "--nodes",
    type=click.IntRange(1, 500),
    default=24,
    show_default=True,
    help="The number of nodes.",
)
@click.option("--speed", type=click.IntRange(min=1), help="Simulated seconds per second.")
@click.option(
    "--for", "seconds", type=click.FloatRange(min=0), help="Stop after this number of seconds."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Serve the dashboard on this port (0: any free port).",
)
@record_option
@click.option("--once", is_flag=True, help="Show one busy moment of the day and stop.")
@click.option("--picture", metavar="FILE.svg", help="Write that moment as an SVG picture and stop.")
def command(
    *,
    seed: int | None,
    nodes: int,
    speed: int | None,
    seconds: float | None,
    port: int | None,
    record: str | None,
    once: bool,
    picture: str | None,
) -> None:
    """Watch Windlass schedule the work of four teams on an embedded cluster.

    On a terminal it runs until Ctrl-C, without one for a day of work; then it compares the result
    with the default scheduler on the same work. The dashboard is served on loopback: on a terminal
    if its page was built, and always if a port is named.
    """
    from rich.console import Console

    from windlass.cli.demo_support.dashboard import served_if_wanted
    from windlass.cli.demo_support.recording import recording
    from windlass.sim.generate import EXAMPLE_SEED, generate
    from windlass.sim.run import Simulation

    console = Console(highlight=False)
    live = console.is_terminal and not once and not picture
    seed = EXAMPLE_SEED if seed is None else seed
    workload = generate(seed, 7 * 24 if live else 24, nodes)
    if once or picture:
        _show_moment(workload, picture, console)
        return
    pace = DemoPace(speed or (SPEED if live else None), seconds)
    simulation = Simulation(workload)
    with served_if_wanted(port, live) as dashboard, recording(record, simulation, dashboard):
        if live:
            _play_live(simulation, pace, console, dashboard)
        else:
            _play_lines(simulation, pace, dashboard)
    _compare(workload, simulation, console)


def _show_moment(workload: Workload, picture: str | None, console: Console) -> None:
    """Print one busy moment of the day, or write it as a picture."""
    from windlass.cli.live_view.export_svg import as_svg
    from windlass.cli.live_view.view import TerminalSize, render
    from windlass.cli.output import write_file
    from windlass.sim.run import Simulation

    simulation = Simulation(workload)
    simulation.run(until=BUSY_TIME)
    if picture is None:
        size = TerminalSize(console.width, max(24, console.height))
        console.print(render(simulation.moment(), size))
        return
    size = TerminalSize(120, 36)
    frame = render(simulation.moment(), size)
    write_file(picture, as_svg(frame, size, "windlass demo").encode())
    click.echo(f"Wrote {picture}.")


def _play_live(
    simulation: Simulation, pace: DemoPace, console: Console, dashboard: SimulationDashboard | None
) -> None:
    """Redraw the frame a few times a second until the end, the time is up, or Ctrl-C."""
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from windlass.cli.live_view.view import TerminalSize, render

    began = time.monotonic()
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while not pace.is_over(began) and _has_more(simulation):
                due = int((time.monotonic() - began) * (pace.speed or SPEED))
                _step_to(simulation, due, dashboard)
                above = [Text(f"Dashboard: {dashboard.address}")] if dashboard else []
                size = TerminalSize(console.width, console.height - len(above))
                live.update(Group(*above, render(simulation.moment(), size)), refresh=True)
                time.sleep(1 / FRAMES_PER_SECOND)
    except KeyboardInterrupt:
        pass


def _play_lines(
    simulation: Simulation, pace: DemoPace, dashboard: SimulationDashboard | None
) -> None:
    """Print a line per simulated hour."""
    workload = simulation.workload
    capacity = simulation.meter.ground.capacity // 1000
    size = f"{counted(len(workload.nodes), 'node')}, {counted(capacity, 'GPU')}"
    click.echo(f"A generated day of four teams on {size}.")
    if dashboard:
        click.echo(f"Dashboard: {dashboard.address}")
    began = time.monotonic()
    try:
        for hour in range(1, (workload.until or 0) // HOUR + 1):
            if pace.is_over(began):
                break
            _step_to(simulation, hour * HOUR, dashboard)
            click.echo(_hour_line(simulation.moment(), hour))
            if pace.speed is not None:
                time.sleep(max(0.0, hour * HOUR / pace.speed - (time.monotonic() - began)))
    except KeyboardInterrupt:
        pass


def _hour_line(moment: SimulationMoment, hour: int) -> str:
    from windlass.cli.format import clock
    from windlass.sim.records import GangStage

    ground, stages = moment.figures.ground, moment.figures.stages
    useful = sum(queue.useful for queue in moment.figures.queues.values())
    used = 100 * (ground.capacity - ground.free) // ground.capacity
    return (
        f"{clock(hour * HOUR)}  {used:>3} % in use {100 * useful // ground.capacity:>3} % useful  "
        f"{stages.get(GangStage.RUNNING, 0):>4} running  "
        f"{stages.get(GangStage.WAITING, 0):>4} waiting  "
        f"{stages.get(GangStage.FINISHED, 0):>4,} finished"
    )


def _has_more(simulation: Simulation) -> bool:
    """Return whether anything happens before the end of the workload."""
    at, until = simulation.next_at(), simulation.workload.until
    return at is not None and (until is None or at <= until)


def _step_to(simulation: Simulation, due: int, dashboard: SimulationDashboard | None) -> None:
    """Simulate up to a time; the clock stays at the last event before it."""
    while (at := simulation.next_at()) is not None and at <= due:
        if dashboard:
            dashboard.step(simulation)
        else:
            simulation.step()
    if dashboard:
        dashboard.show(simulation)


def _compare(workload: Workload, ours: Simulation, console: Console) -> None:
    """Simulate the same work with the default scheduler, and print both results."""
    from windlass.cli.format import duration
    from windlass.cli.render.simulation_report import ASSUMPTIONS, short_report
    from windlass.sim.baselines import default
    from windlass.sim.report import compare
    from windlass.sim.run import Simulation

    now = ours.cluster.now
    theirs = Simulation(workload, default)
    with console.status("Simulating the same work with the default scheduler ..."):
        theirs.run(until=now)
    click.echo(f"\nThe same {duration(now)} of work, with and without Windlass\n")
    click.echo(short_report(compare(ours, theirs)))
    click.echo(f"\n{ASSUMPTIONS}")
