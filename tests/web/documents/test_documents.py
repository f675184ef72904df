"""The documents say exactly what the cluster and the plan of the engine say."""

from __future__ import annotations

from typing import Any

from tests.given import RACKS, Job, ask, job, node, queue, rack, schedule, submit
from windlass.engine.cycle import plan
from windlass.engine.plan import Plan
from windlass.model.actions import Hold, PlaceClaim
from windlass.model.gpus import Slice
from windlass.model.jobs import GangId, TaskId, TaskState
from windlass.model.nodes import Topology
from windlass.model.reasons import ReasonCode
from windlass.state.cluster import Cluster
from windlass.web.documents.decisions import MOST_NAMED, MOST_QUEUES, cycle_document, first_gangs
from windlass.web.documents.gpu_map import cluster_document
from windlass.web.documents.jobs import MOST_ROWS, JobLists, ListWindow
from windlass.web.documents.map_nodes import CORDONED, GONE, IN_SERVICE
from windlass.web.documents.queues import queue_rows
from windlass.web.feed.gang_members import GangMemberIndex
from windlass.web.feed.timeseries import MOST_SAMPLES, Timeseries, past_of
from windlass.web.feed.view import ClusterView, ViewExtras, take_view
from windlass.web.schema.documents import Eta, FinishedJob, QueueRow, Stamp

STAMP = Stamp("run", 1, 1, 0, True)


def map_of(*things, **options):
    there = schedule(*things, **options)
    return cluster_document(view_of(there.carried_out(), there.plan))


def view_of(cluster: Cluster, plan: Plan, **beside: Any) -> ClusterView:
    return take_view(cluster, plan, STAMP, ViewExtras(**beside))


def members(view: ClusterView) -> GangMemberIndex:
    made = GangMemberIndex()
    made.follow(view)
    return made


def rows_of(cluster: Cluster, plan: Plan) -> list[QueueRow]:
    view = view_of(cluster, plan)
    return queue_rows(view, members(view))


def lists_of(cluster: Cluster, plan: Plan, **beside: Any) -> JobLists:
    view = view_of(cluster, plan, **beside)
    return JobLists(view, members(view))


def test_gpus_are_numbered_through_rack_by_rack():
    nodes = (*rack("r2", "b", gpus=2), *rack("r1", "c", "a", gpus=4))
    shown = map_of(RACKS, *nodes)
    assert shown.racks.name == ["r1", "r2"]
    assert shown.nodes.name == ["a", "c", "b"]
    assert shown.nodes.first == [0, 4, 8]
    assert shown.nodes.rack == [0, 0, 1]


def test_neighbouring_gpus_of_a_task_are_one_run():
    shown = map_of(node("n", gpus=8), job("a", 2, ask(gpus=4)))
    rows = sorted(zip(shown.given.gpu, shown.given.count, shown.given.milli, strict=True))
    assert rows == [(0, 4, 1000), (4, 4, 1000)]


def test_gpus_that_are_not_neighbours_are_several_runs():
    split = job("a", 1, ask(gpus=3)).runs(0, on="n", devices=(0, 1, 3))
    shown = map_of(node("n", gpus=4), split)
    assert list(zip(shown.given.gpu, shown.given.count, strict=True)) == [(0, 2), (3, 1)]


def test_a_fraction_shows_its_thousandths():
    shown = map_of(node("n", gpus=1), job("a", 1, ask(gpus=1, milli=250)))
    assert (shown.given.milli, shown.given.left) == ([250], [-1])


def test_a_mig_instance_is_drawn_at_its_place():
    cut = job("a", 1, ask(gpus=1, profile="3g.40gb")).runs(
        0, on="n", devices=[Slice(0, 500, "3g.40gb", 4)]
    )
    shown = map_of(node("n", gpus=1, mig=True), cut)
    assert (shown.given.left, shown.given.width) == ([500], [500])


def test_an_entry_leads_from_the_gpu_to_its_queue_and_user():
    shown = map_of(
        queue("x"), queue("y"), node("n", gpus=1), job("a", 1, ask(gpus=1), queue="y", user="eva")
    )
    gang = shown.tasks.gang[shown.given.task[0]]
    assert shown.gangs.name[gang] == "a"
    assert shown.queues[shown.gangs.queue[gang]] == "y"
    assert shown.users[shown.gangs.user[gang]] == "eva"


def test_nodes_show_whether_they_are_in_service():
    cluster = schedule(node("a", gpus=1), node("b", gpus=1, cordoned=True)).cluster
    shown = cluster_document(view_of(cluster, Plan(), away=[node("c", gpus=1)]))
    assert shown.nodes.state == [IN_SERVICE, CORDONED, GONE]


def test_held_gpus_are_shown_with_their_gang():
    cluster = schedule(node("n", gpus=2), job("a", 1, ask(gpus=1))).cluster
    hold = Hold(GangId("a"), (PlaceClaim(TaskId("a-0"), "n", (Slice(1, 1000),)),), starts_at=60)
    shown = cluster_document(view_of(cluster, Plan(holds=(hold,))))
    assert (shown.held.gpu, shown.held.later) == ([1], [1])
    assert shown.gangs.name[shown.held.gang[0]] == "a"


def test_utilisation_is_listed_per_gpu_where_it_is_measured():
    cluster = schedule(node("a", gpus=2), node("b", gpus=1)).cluster
    assert cluster_document(view_of(cluster, Plan())).utilisation == []
    measured = cluster_document(view_of(cluster, Plan(), utilisation={"a": [830]}))
    assert measured.utilisation == [830, -1, -1]


def test_nodes_that_nvlink_joins_are_a_domain_inside_their_rack():
    levels = Topology("net", ("zone", "rack", "nvidia.com/gpu.clique"))
    here = {"zone": "z", "rack": "r"}
    linked = [node(name, gpus=4, labels={**here, levels.levels[2]: "nvl"}) for name in "ac"]
    shown = map_of(levels, *linked, node("b", gpus=4, labels=here))
    assert (shown.racks.name, shown.racks.block) == (["r"], ["z"])
    assert shown.domains == ["nvl"]
    assert dict(zip(shown.nodes.name, shown.nodes.domain, strict=True)) == {"a": 0, "b": -1, "c": 0}


def test_queues_are_listed_below_their_parents():
    there = schedule(queue("top"), queue("other"), queue("leaf", "top"), node("n", gpus=1))
    rows = rows_of(there.cluster, there.plan)
    assert [(row.name, row.depth) for row in rows] == [("top", 0), ("leaf", 1), ("other", 0)]


def test_a_queue_beyond_its_guarantee_borrows_what_another_lends():
    there = schedule(
        queue("a", gpus=1),
        queue("b", gpus=3),
        node("n", gpus=4),
        *(job(f"a{i}", 1, ask(gpus=1), queue="a") for i in range(3)),
    )
    rows = {row.name: row for row in rows_of(there.carried_out(), there.plan)}
    assert (rows["a"].allocated, rows["a"].borrowed) == (3000, 2000)
    assert (rows["b"].allocated, rows["b"].lent) == (0, 2000)


def test_waiting_jobs_are_in_queue_order_with_their_reasons():
    there = schedule(node("n", gpus=1), *(job(f"j{i}", 1, ask(gpus=1)) for i in range(3)))
    shown = lists_of(there.carried_out(), there.plan).document()
    assert [each.position for each in shown.waiting] == [1, 2]
    said = [str(each) for each in there.decision(shown.waiting[0].gang).reasons]
    assert [each.sentence for each in shown.waiting[0].reasons] == said
    assert [(each.gang, each.nodes, each.milli) for each in shown.running] == [("j0", ["n"], 1000)]


def test_a_gang_that_can_never_start_has_no_position_and_is_last():
    there = schedule(
        node("n", gpus=1),
        job("huge", 1, ask(gpus=9)),
        *(job(f"j{i}", 1, ask(gpus=1)) for i in range(2)),
    )
    shown = lists_of(there.carried_out(), there.plan).document()
    assert (shown.waiting[-1].gang, shown.waiting[-1].position) == ("huge", 0)
    assert shown.waiting[-1].reasons[0].why == ReasonCode.NEVER_NODE


def test_a_long_list_is_counted_in_full_and_cut_to_a_window():
    many: list[Job] = [job(f"j{i:04}", 1, ask(gpus=1)) for i in range(MOST_ROWS + 3)]
    there = schedule(node("n", gpus=1), *many)
    shown = lists_of(there.carried_out(), there.plan).document()
    assert (shown.waiting_in_all, len(shown.waiting)) == (MOST_ROWS + 2, MOST_ROWS)


def test_a_window_has_a_part_of_each_list_and_its_first_row():
    there = schedule(node("n", gpus=2), *(job(f"j{i}", 1, ask(gpus=1)) for i in range(6)))
    shown = lists_of(there.carried_out(), there.plan).document(ListWindow(waiting=1, count=2))
    assert (shown.waiting_in_all, shown.waiting_first) == (4, 1)
    assert [each.position for each in shown.waiting] == [2, 3]
    assert (shown.running_in_all, len(shown.running)) == (2, 2)


def test_a_search_limits_the_lists_and_their_lengths():
    there = schedule(node("n", gpus=2), *(job(f"j{i}", 1, ask(gpus=1)) for i in range(6)))
    shown = lists_of(there.carried_out(), there.plan).document(ListWindow(find="J5"))
    assert [each.gang for each in shown.waiting] == ["j5"]
    assert (shown.waiting_in_all, shown.running_in_all, shown.asked) == (1, 0, 4000)


def test_one_job_is_found_whether_it_waits_or_runs():
    there = schedule(node("n", gpus=1), *(job(f"j{i}", 1, ask(gpus=1)) for i in range(2)))
    lists = lists_of(there.carried_out(), there.plan, etas={GangId("j1"): Eta(60, 30, 90)})
    waits, runs = lists.one("j1"), lists.one("j0")
    assert waits is not None
    assert waits.waiting is not None
    assert (waits.waiting.eta, waits.running) == (Eta(60, 30, 90), None)
    assert waits.waiting_in_all == 1
    assert runs is not None
    assert runs.running is not None
    assert runs.running.nodes == ["n"]
    assert lists.one("nobody") is None


def test_a_cycle_lists_allocations_before_and_after_it():
    there = schedule(
        queue("rich", gpus=1),
        queue("poor", gpus=3),
        node("n", gpus=4),
        *(
            job(f"r{i}", 1, ask(gpus=1), queue="rich").runs(0, on="n", devices=[i])
            for i in range(4)
        ),
        *(job(f"p{i}", 1, ask(gpus=1), queue="poor") for i in range(3)),
    )
    planned = cycle_document(1, there.cluster, there.plan).shares
    assert [(row.queue, row.before, row.after) for row in planned] == [
        ("rich", 4000, 1000),
        ("poor", 0, 0),  # it is held for them, and theirs in a later cycle
    ]
    assert [row.share for row in planned] == [1000, 3000]
    carried_out = cycle_document(1, there.carried_out(), there.plan).shares
    assert {row.queue: row for row in carried_out} == {row.queue: row for row in planned}


def test_bound_tasks_count_after_a_cycle_whether_or_not_the_plan_is_assumed():
    there = schedule(
        queue("team"),
        queue("leaf", "team"),
        node("n", gpus=2),
        job("a", 2, ask(gpus=1), queue="leaf"),
    )
    for cluster in (there.cluster, there.carried_out()):
        (row,) = cycle_document(1, cluster, there.plan).shares
        assert (row.queue, row.before, row.after) == ("team", 0, 2000)


def test_of_many_queues_a_cycle_lists_those_that_changed():
    many = [queue(f"q{i:02}") for i in range(3 * MOST_QUEUES)]
    there = schedule(*many, node("n", gpus=1), job("a", 1, ask(gpus=1), queue="q17"))
    rows = cycle_document(1, there.carried_out(), there.plan).shares
    assert len(rows) == MOST_QUEUES
    assert [row.queue for row in rows if row.before != row.after] == ["q17"]


def test_a_cycle_summary_names_its_first_gangs():
    jobs = [job(f"j{i}", 1, ask(gpus=1)) for i in range(9)]
    there = schedule(node("n", gpus=9), *jobs)
    told = cycle_document(1, there.carried_out(), there.plan)
    assert first_gangs(told) == [each.gang for each in told.placed[:MOST_NAMED]]


def test_finished_jobs_are_listed():
    ended = FinishedJob("a", "a", "team", "", "default", 0, 5, 10)
    cluster = schedule(node("n", gpus=1)).cluster
    assert lists_of(cluster, Plan(), finished=[ended]).document().finished == [ended]


def test_requests_of_waiting_jobs_are_counted_in_parts_of_a_gpu():
    there = schedule(
        node("whole", gpus=1),
        node("cut", gpus=1, mig=True),
        job("full", 1, ask(gpus=1)).runs(0, on="whole", devices=[0]),
        job("cutting", 1, ask(gpus=1, profile="7g.80gb")).runs(
            0, on="cut", devices=[Slice(0, 1000, "7g.80gb")]
        ),
        job("half", 1, ask(gpus=1, milli=500)),
        job("memory", 1, ask(gpus=1, memory_mib=20 * 1024)),
        job("slice", 2, ask(gpus=1, profile="1g.10gb")),
    )
    shown = lists_of(there.cluster, there.plan).document()
    asked = {each.gang: each.milli for each in shown.waiting}
    assert asked == {"half": 500, "memory": 250, "slice": 2 * 143}


def test_jobs_and_queues_agree_on_the_waiting_gangs():
    there = schedule(
        queue("top"),
        queue("leaf", "top"),
        node("n", gpus=1),
        *(job(f"j{i}", 1, ask(gpus=1), queue="leaf") for i in range(3)),
    )
    rows = rows_of(there.carried_out(), there.plan)
    assert [(row.waiting_gangs, row.waiting) for row in rows] == [(2, 2000), (2, 2000)]
    assert len(lists_of(there.carried_out(), there.plan).document().waiting) == 2


def test_a_cycle_lists_placed_gangs_and_reasons_of_waiting_gangs():
    there = schedule(node("n", gpus=2), job("a", 2, ask(gpus=1)), job("b", 1, ask(gpus=1)))
    shown = cycle_document(7, there.carried_out(), there.plan)
    assert [(e.gang, e.tasks, e.milli, e.nodes) for e in shown.placed] == [("a", 2, 2000, ["n"])]
    assert [(e.why, e.gangs) for e in shown.waiting] == [(ReasonCode.NO_ROOM, 1)]


def test_a_cycle_lists_victims_with_their_preemptor():
    there = reclaimed()
    shown = cycle_document(1, there[0], there[1])
    lost = [(each.queue, each.rule, each.gainer) for each in shown.evicted]
    assert lost == [("a", "guarantee", "mine")]
    assert shown.evicted[0].milli == 1000
    assert shown.evicted[0].reasons


def reclaimed() -> tuple[Cluster, Plan]:
    """Queue `a` runs on both GPUs; queue `b` asks for the one it is guaranteed."""
    theirs = [
        job(f"theirs{i}", 1, ask(gpus=1), queue="a").runs(0, on="n", devices=[i]) for i in range(2)
    ]
    there = schedule(queue("a", gpus=1), queue("b", gpus=1), node("n", gpus=2), *theirs).cluster
    submit(there, job("mine", 1, ask(gpus=1), queue="b"))
    there.advance(86_400)
    found = plan(there)
    there.assume(found)
    assert any(task.state is TaskState.RELEASING for task in there.tasks.values())
    return there, found


def test_a_hold_is_listed_only_in_the_cycle_that_made_it():
    cluster, found = reclaimed()
    assert [each.gang for each in cycle_document(1, cluster, found).held] == ["mine"]
    assert cycle_document(2, cluster, found, {GangId("mine")}).held == []


def test_timeseries_is_bounded_and_reaches_back_to_the_beginning():
    there = schedule(queue("a"), node("n", gpus=1), job("j", 1, ask(gpus=1), queue="a"))
    cluster, book = there.carried_out(), Timeseries(step_s=1)
    for now in range(MOST_SAMPLES * 3):
        cluster.advance(now)
        book.note(cluster, there.plan)
    past = past_of(book.samples, ["a", "new"])
    assert len(past.waiting) == len(past.running) == len(past.at)
    assert past.at[0] == 0
    assert len(past.at) < MOST_SAMPLES
    assert set(past.allocated["a"]) == {1000}
    assert set(past.allocated["new"]) == {0}
