"""A watch tells all that happens, once, whatever the server and the network do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from random import Random

import msgspec
from aiohttp import web

from tests.live.support.fake_api_server import Meta, Stage, Thing, served, status, until
from windlass.kube.client import errors
from windlass.kube.client.client import connect
from windlass.kube.client.watch import Change, ObjectSeen, Watch

PATH = "/api/v1/configmaps"


class Told:
    """What a watch has told, as words: `+a` seen, `-a` gone."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.batches = 0

    def sink(self, changes: list[Change[Thing]]) -> None:
        self.batches += 1
        for change in changes:
            sign = "+" if isinstance(change, ObjectSeen) else "-"
            self.words.append(sign + change.object.metadata.name)

    async def wait_for(self, *words: str) -> None:
        await until(lambda: self.words == list(words), f"{self.words} was {list(words)}")


@asynccontextmanager
async def watching(stage: Stage, **options: object) -> AsyncIterator[tuple[Watch[Thing], Told]]:
    async with served(stage.handle) as access, connect(access) as api:
        told = Told()
        watch = Watch(api, PATH, Thing, chance=Random(7), **options)  # type: ignore[arg-type]
        task = asyncio.create_task(watch.run(told.sink))
        try:
            yield watch, told
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def synced(watch: Watch[Thing]) -> None:
    await until(watch.synced.is_set, "the watch was in step")


async def test_all_that_is_there_is_told_before_the_watch_is_in_step() -> None:
    stage = Stage()
    await stage.put("a")
    await stage.put("b")
    async with watching(stage) as (watch, told):
        await synced(watch)
        assert told.words == ["+a", "+b"]
        assert sorted(watch.items) == [("ns", "a"), ("ns", "b")]
        assert [a["sendInitialEvents"] for a in stage.asked] == ["true"]


async def test_a_server_that_cannot_list_in_a_watch_is_listed_in_pages() -> None:
    stage = Stage(offers_list=False)
    for name in "abcde":
        await stage.put(name)
    async with watching(stage, page=2) as (watch, told):
        await synced(watch)
        assert told.words == ["+a", "+b", "+c", "+d", "+e"]
        assert [a.get("continue") for a in stage.lists()[1:]] == [None, "5-2", "5-4"]
        await stage.put("f")
        await until(lambda: told.words[5:] == ["+f"], "the new one was told")
        assert stage.asked[-1]["resourceVersion"] == "5"


async def test_an_empty_list_brings_the_watch_in_step_too() -> None:
    for offers_list in (True, False):
        async with watching(Stage(offers_list=offers_list)) as (watch, told):
            await synced(watch)
            assert told.batches == 0


async def test_changes_and_deletions_are_told_in_order() -> None:
    stage = Stage()
    async with watching(stage) as (watch, told):
        await synced(watch)
        await stage.put("a")
        await stage.put("a", data={"colour": "red"})
        await stage.put("b")
        await stage.remove("a")
        await told.wait_for("+a", "+a", "+b", "-a")
        assert list(watch.items) == [("ns", "b")]


async def test_a_watch_that_ends_cleanly_is_resumed_where_it_stopped() -> None:
    stage = Stage()
    await stage.put("a")
    async with watching(stage) as (watch, told):
        await synced(watch)
        await stage.put("b")
        await told.wait_for("+a", "+b")
        await stage.end_streams()
        await stage.put("c")
        await told.wait_for("+a", "+b", "+c")
        assert len(stage.lists()) == 1
        assert stage.asked[-1]["resourceVersion"] == "2"


async def test_a_broken_connection_is_resumed_without_a_new_list() -> None:
    stage = Stage()
    await stage.put("a")
    async with watching(stage) as (watch, told):
        await synced(watch)
        await stage.drop_streams()
        await stage.put("b")
        await told.wait_for("+a", "+b")
        assert len(stage.lists()) == 1
        assert watch.trouble is None


async def test_a_bookmark_moves_the_place_from_which_a_watch_is_resumed() -> None:
    stage = Stage()
    await stage.put("a")
    async with watching(stage) as (watch, _):
        await synced(watch)
        stage._version = 40  # other objects, not ours, have changed
        await until(lambda: stage.watching, "it was watching")
        await stage.bookmark()
        await stage.end_streams()
        await until(lambda: len(stage.asked) == 2, "it was resumed")
        assert stage.asked[-1]["resourceVersion"] == "40"


async def test_history_that_is_gone_costs_a_list_that_tells_only_differences() -> None:
    stage = Stage()
    for name in ("same", "changed", "lost", "replaced"):
        await stage.put(name)
    async with watching(stage) as (watch, told):
        await synced(watch)
        told.words.clear()
        stage.before = lambda asked: status(503, "ServiceUnavailable")
        await until(lambda: stage.watching, "it was watching")
        await stage.drop_streams()
        await until(lambda: watch.trouble, "it was refused")
        await stage.put("changed")
        await stage.remove("lost")
        await stage.remove("replaced")
        await stage.put("replaced", uid="another")
        await stage.put("new")
        stage.forget()
        stage.before = lambda asked: None
        await told.wait_for("+changed", "-replaced", "+replaced", "+new", "-lost")
        assert "sendInitialEvents" in stage.asked[-1]


async def test_a_410_inside_the_stream_costs_a_new_list() -> None:
    stage = Stage()
    await stage.put("a")
    async with watching(stage) as (watch, told):
        await synced(watch)
        await until(lambda: stage.watching, "it was watching")
        await stage.send(b'{"type":"ERROR","object":{"code":410,"reason":"Expired"}}\n')
        await until(lambda: len(stage.lists()) == 2, "it listed again")
        await stage.put("b")
        await told.wait_for("+a", "+b")


async def test_pages_that_expire_are_read_again_in_one_piece() -> None:
    stage = Stage(offers_list=False)
    for name in "abcd":
        await stage.put(name)

    def expire(asked: dict[str, str]) -> web.StreamResponse | None:
        return status(410, "Expired") if "continue" in asked else None

    stage.before = expire
    async with watching(stage, page=2) as (watch, told):
        await synced(watch)
        assert told.words == ["+a", "+b", "+c", "+d"]
        assert "limit" not in stage.lists()[-1]


async def test_a_list_inside_a_watch_that_breaks_off_is_done_in_pages() -> None:
    stage = Stage()
    await stage.put("a")

    def break_off(asked: dict[str, str]) -> web.StreamResponse | None:
        return web.Response(body=b"") if "sendInitialEvents" in asked else None

    stage.before = break_off
    async with watching(stage) as (watch, told):
        await synced(watch)
        assert told.words == ["+a"]
        assert [("limit" in a) for a in stage.lists()] == [False, True]


async def test_a_silent_stream_is_cut_and_resumed() -> None:
    stage = Stage()
    await stage.put("a")
    async with watching(stage, idle_s=0.2) as (_, told):
        await until(lambda: len(stage.asked) >= 3, "it was resumed twice")
        assert len(stage.lists()) == 1
        await stage.put("b")
        await told.wait_for("+a", "+b")


async def test_one_object_of_a_wrong_shape_does_not_stop_the_others() -> None:
    bad: list[tuple[tuple[str, str], str]] = []
    for offers_list in (True, False):
        bad.clear()
        stage = Stage(offers_list=offers_list)
        await stage.put("a")
        await stage.put("odd", data=["no", "map"])
        await stage.put("b")
        hook = lambda key, why: bad.append((key, why))  # noqa: E731
        async with watching(stage, on_unreadable=hook) as (watch, told):
            await synced(watch)
            assert told.words == ["+a", "+b"]
            await stage.put("odder", data=7)
            await stage.put("c")
            await told.wait_for("+a", "+b", "+c")
            assert [key for key, _ in bad] == [("ns", "odd"), ("ns", "odder")]
            assert "Expected `object`, got `array`" in bad[0][1]


async def test_an_object_that_becomes_unreadable_stays_as_it_was_until_it_is_deleted() -> None:
    stage = Stage()
    await stage.put("a", data={"colour": "red"})
    async with watching(stage) as (watch, told):
        await synced(watch)
        await stage.put("a", data=7)
        await stage.put("b")
        await told.wait_for("+a", "+b")
        await stage.send(b'{"type":"ERROR","object":{"code":410,"reason":"Expired"}}\n')
        await until(lambda: len(stage.lists()) == 2, "it listed again")
        await stage.put("c")
        await told.wait_for("+a", "+b", "+c")
        assert watch.items["ns", "a"].data == {"colour": "red"}
        await stage.remove("a")
        await told.wait_for("+a", "+b", "+c", "-a")


async def test_a_line_may_come_in_any_pieces() -> None:
    stage = Stage()
    async with watching(stage) as (watch, told):
        await synced(watch)
        await until(lambda: stage.watching, "it was watching")
        text = b"".join(
            b'{"type":"ADDED","object":{"metadata":{"name":"%s","uid":"u","resourceVersion":"1"}}}\n'
            % name
            for name in (b"a", "ü".encode(), b"c")
        )
        for place in range(len(text)):
            await stage.send(text[place : place + 1])
            await asyncio.sleep(0)
        await told.wait_for("+a", "+ü", "+c")


async def test_a_line_may_be_longer_than_any_buffer() -> None:
    stage = Stage()
    async with watching(stage) as (watch, told):
        await synced(watch)
        await stage.put("huge", data={"text": "x" * 20_000_000})
        await stage.put("small")
        await told.wait_for("+huge", "+small")
        assert len(watch.items["ns", "huge"].data["text"]) == 20_000_000


async def test_what_is_no_json_costs_a_new_list_and_loses_nothing() -> None:
    stage = Stage()
    await stage.put("a")
    async with watching(stage) as (watch, told):
        await synced(watch)
        await until(lambda: stage.watching, "it was watching")
        await stage.send(b"<html>\xff\n")
        await until(lambda: len(stage.lists()) == 2, "it listed again")
        await stage.put("b")
        await told.wait_for("+a", "+b")


async def test_what_came_before_a_failure_in_the_same_piece_is_told() -> None:
    stage = Stage()
    async with watching(stage) as (watch, told):
        await synced(watch)
        await until(lambda: stage.watching, "it was watching")
        await stage.send(
            b'{"type":"ADDED","object":{"metadata":{"name":"a","uid":"u","resourceVersion":"9"}}}\n'
            b'{"type":"ERROR","object":{"code":500,"reason":"InternalError","message":"oh"}}\n'
        )
        await told.wait_for("+a", "-a")  # the list that follows does not know it


async def test_a_server_that_wants_rest_is_asked_again_later() -> None:
    stage = Stage()
    await stage.put("a")
    refusals = iter(range(3))

    def refuse(asked: dict[str, str]) -> web.StreamResponse | None:
        answer = status(429, "TooManyRequests", retryAfterSeconds=0.01)
        return answer if next(refusals, None) is not None else None

    stage.before = refuse
    async with watching(stage) as (watch, told):
        await until(lambda: isinstance(watch.trouble, errors.TooMany), "it was refused")
        await synced(watch)
        assert told.words == ["+a"]
        assert watch.trouble is None
        assert len(stage.asked) == 4


async def test_a_version_from_the_future_costs_a_new_list() -> None:
    stage = Stage()
    await stage.put("a")
    async with watching(stage) as (watch, told):
        await synced(watch)
        await until(lambda: stage.watching, "it was watching")

        def from_the_future(asked: dict[str, str]) -> web.StreamResponse | None:
            causes = [{"reason": "ResourceVersionTooLarge"}]
            return status(504, "Timeout", causes=causes) if "resourceVersion" in asked else None

        stage.before = from_the_future
        await stage.end_streams()
        await until(lambda: len(stage.lists()) == 2, "it listed again")
        await stage.put("b")
        await told.wait_for("+a", "+b")


async def test_a_failing_sink_ends_the_watch_instead_of_being_hidden() -> None:
    stage = Stage()
    await stage.put("a")

    def fail(changes: list[Change[Thing]]) -> None:
        raise LookupError("our own mistake")

    async with served(stage.handle) as access, connect(access) as api:
        try:
            await Watch(api, PATH, Thing).run(fail)
        except LookupError:
            return
    raise AssertionError("the mistake was swallowed")


class Strict(msgspec.Struct, frozen=True):
    """A kind with a required field: a bookmark must not be read as one."""

    metadata: Meta
    must: str


async def test_a_kind_with_required_fields_takes_bookmarks_too() -> None:
    stage = Stage()
    await stage.put("a", must="be")
    async with served(stage.handle) as access, connect(access) as api:
        watch = Watch(api, PATH, Strict)
        task = asyncio.create_task(watch.run(lambda changes: None))
        await until(watch.synced.is_set, "the watch was in step")
        await stage.bookmark()
        await stage.put("b", must="be")
        await until(lambda: len(watch.items) == 2, "both were there")
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
