"""The live page: it follows the cluster, the server, the keyboard and the colour scheme."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect

from tests.browser.conftest import Site
from tests.given import ask, job, node
from tests.support.small_workloads import arrives, work
from windlass.cli.render.preemption_preview import preemption_clauses
from windlass.engine.explain.preemption_preview import preview_preemption
from windlass.engine.suggestions.suggest import suggest

HOUR = 3600


def test_the_page_follows_the_cluster(site: Site, open_page: Any):
    page = open_page(f"{site.address}#decisions")
    page.get_by_text(f"Cycle {site.simulation.cycles:,}", exact=True).wait_for()
    site.play(10 * HOUR)
    now = page.get_by_text(f"Cycle {site.simulation.cycles:,}", exact=True)
    now.wait_for()
    assert now.is_visible()


def test_two_viewers_see_the_same(site: Site, open_page: Any):
    pages = [open_page(site.address) for _ in range(2)]
    for page in pages:
        page.locator(".fig").first.wait_for()
    site.play(10 * HOUR)
    for page in pages:
        page.get_by_text(f"cycle {site.simulation.cycles:,}").wait_for()
    shown = lambda: {page.locator(".figs").inner_text() for page in pages}  # noqa: E731
    for _ in range(100):  # the number of the cycle comes first, what there is to say about it next
        if len(shown()) > 1:
            pages[0].wait_for_timeout(50)
    assert len(shown()) == 1


def test_the_page_keeps_the_last_data_while_the_server_is_away(site: Site, open_page: Any):
    page = open_page(site.address)
    page.get_by_text("Live", exact=True).wait_for()
    before = page.locator(".figs").inner_text()
    site.stop()
    page.get_by_text("Reconnecting").wait_for()
    assert page.locator(".figs").inner_text() == before


def test_the_page_survives_a_restart_of_the_server(site: Site, open_page: Any):
    page = open_page(site.address)
    page.get_by_text("Live", exact=True).wait_for()
    site.restart()
    page.get_by_text("cycle 1 ·").wait_for()  # a run of its own, with cycles of its own
    site.play(10 * HOUR)
    last = site.dashboard.board.cycles()[-1].cycle
    now = page.get_by_text(f"cycle {last:,}")
    now.wait_for()
    assert now.is_visible()


def test_everything_is_reachable_by_keyboard(site: Site, open_page: Any):
    page = open_page(site.address)
    page.locator(".map canvas[role]").wait_for()
    for key, title in (("2", "Queues"), ("3", "Jobs"), ("4", "Decisions"), ("1", "Cluster")):
        page.keyboard.press(key)
        page.get_by_role("heading", name=title, level=1).wait_for()
    page.keyboard.press("c")
    expect(page.get_by_role("button", name="Model")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("/")
    expect(page.get_by_placeholder("Find a job, queue or user")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert page.get_by_role("dialog").count() == 1


def test_the_map_is_accessible_to_screen_readers_and_opens_the_job(site: Site, open_page: Any):
    page = open_page(site.address)
    shown = page.evaluate("fetch('api/cluster').then(answer => answer.json())")
    gpu = shown["given"]["gpu"][0]
    gang = shown["gangs"]["name"][shown["tasks"]["gang"][shown["given"]["task"][0]]]
    page.locator(".map canvas[role]").focus()
    for _ in range(gpu + 1):
        page.keyboard.press("ArrowRight")
    assert gang in page.locator(".map [aria-live]").inner_text()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Jobs").wait_for()
    assert page.locator(".drawer h2").inner_text() in shown["gangs"]["name"]
    page.keyboard.press("Escape")
    page.locator(".drawer").wait_for(state="detached")


def test_a_waiting_job_shows_what_room_would_take(shared_site: Site, open_page: Any):
    simulation = shared_site.simulation
    gang = next(each.gang for each in simulation.plan.decisions if each.position)
    page = open_page(f"{shared_site.address}#jobs/{gang}")
    said = page.locator(".drawer section").last.locator("li")
    said.first.wait_for()
    found = preview_preemption(simulation.cluster, gang)
    assert found is not None
    assert said.all_inner_texts() == list(preemption_clauses(found, simulation.cluster.now))


def test_a_waiting_job_shows_the_changes_that_would_start_it(shared_site: Site, open_page: Any):
    simulation = shared_site.simulation
    gang = next(each.gang for each in simulation.plan.decisions if each.position)
    page = open_page(f"{shared_site.address}#jobs/{gang}")
    part = page.locator(".drawer section").filter(has_text="It would start…")
    part.locator("li").first.wait_for()
    found = suggest(simulation.cluster.snapshot(), gang)
    shown = part.locator("li .says, .note").evaluate_all("all => all.map(each => each.textContent)")
    assert sorted(shown) == sorted(found.sentences()), "in the words of the terminal"
    cycle = shared_site.dashboard.board.cycles()[-1].cycle
    expect(part).to_contain_text(f"Each one tried by the engine in cycle {cycle:,}.")


def test_changes_are_listed_with_their_kind_and_forbidden_ones_last(open_page: Any):
    """Two jobs on one GPU: a higher priority is a small change; that the other stops, forbidden."""
    full = arrives(job("first", 1, ask(gpus=1), duration_s=HOUR), runs=HOUR)
    site = Site(work(node("n", 1), full, arrives(job("second", 1, ask(gpus=1)), at=60, runs=600)))
    site.play(100)
    site.serve()
    rows = open_page(f"{site.address}#jobs/second").locator(".starts li")
    rows.first.wait_for()
    assert rows.locator(".kind").all_inner_texts() == ["priority", "not allowed"]
    assert rows.evaluate_all("all => all.map(each => each.className)") == ["", "forbidden"]
    expect(rows.last).to_contain_text("which it may not displace")
    site.stop()


def test_a_line_says_that_changes_are_being_tried(shared_site: Site, open_page: Any):
    gang = next(each.gang for each in shared_site.simulation.plan.decisions if each.position)
    asked: list[Any] = []

    def hold_back(route: Any) -> None:
        asked.append(route)

    page = open_page(
        f"{shared_site.address}#jobs/{gang}",
        prepare=lambda page: page.route("**/api/room?*", hold_back),
    )
    waits = page.get_by_text("Being worked out")
    waits.wait_for()
    asked[0].fulfill(json={"gang": gang, "cycle": 1, "sentences": [], "starts": [], "notes": []})
    expect(page.get_by_text("Nothing has to change")).to_be_visible()
    expect(waits).to_have_count(0)
    assert asked, "the page asks for it by itself"


def test_colour_scheme_follows_the_system_until_it_is_chosen(site: Site, open_page: Any):
    page = open_page(site.address, color_scheme="dark")
    root = page.locator("html")
    assert root.get_attribute("data-theme") == "dark"
    page.keyboard.press("t")
    assert root.get_attribute("data-theme") == "light"
    page.reload()
    assert root.get_attribute("data-theme") == "light"


def test_the_search_is_in_the_address(site: Site, open_page: Any):
    page = open_page(f"{site.address}#jobs?find=lang")
    page.locator("h1").wait_for()
    assert page.get_by_label("Find a job, queue or user").input_value() == "lang"
    page.keyboard.press("/")
    page.keyboard.type("u")
    assert page.url.endswith("#jobs?find=langu")


def test_a_search_limits_the_jobs(site: Site, open_page: Any):
    page = open_page(f"{site.address}#jobs")
    name = page.locator("a.subject").first.inner_text()
    page.keyboard.press("/")
    page.keyboard.type(name)
    expect(page.locator("a.subject").filter(has_not_text=name)).to_have_count(0)
    assert name in page.locator("a.subject").all_inner_texts()
