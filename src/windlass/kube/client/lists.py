"""All objects of a kind, read once in pages; what cannot be read of it is left out."""

from __future__ import annotations

from windlass.kube.client.client import Api
from windlass.kube.client.decode import KindDecoder, ListPage
from windlass.kube.client.errors import ResourceExpired
from windlass.kube.client.object_cache import T

PAGE = "500"
TIMEOUT_S = 60.0


async def list_all(api: Api, path: str, kind: type[T]) -> list[T]:
    """Everything that lies at a path."""
    reader = KindDecoder(kind)
    try:
        return await _in_pages(api, path, reader)
    except ResourceExpired:  # pages took longer than the server keeps them
        return (await _page(api, path, reader, {})).items


async def _in_pages(api: Api, path: str, reader: KindDecoder[T]) -> list[T]:
    page = await _page(api, path, reader, {"limit": PAGE})
    found = page.items
    while page.next:
        page = await _page(api, path, reader, {"limit": PAGE, "continue": page.next})
        found += page.items
    return found


async def _page(api: Api, path: str, reader: KindDecoder[T], params: dict[str, str]) -> ListPage[T]:
    return reader.page(await api.get(path, params, timeout_s=TIMEOUT_S))
