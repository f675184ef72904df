"""Access to the API server: sources of credentials, and their renewal."""

import asyncio
import json
import os
import ssl
import stat
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.live.support.fake_api_server import status
from windlass.kube.client import auth as credentials
from windlass.kube.client import kubeconfig as identity
from windlass.kube.client.auth import Access, Credentials, load, namespace
from windlass.kube.client.client import connect
from windlass.kube.client.errors import NoAccess, Unauthorized

PLUGIN = """#!{python}
import datetime, json, os, pathlib, sys
count = pathlib.Path({folder!r}, "count")
turn = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(turn))
asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds={seconds})
given = json.loads(os.environ["GIVEN"].replace("TURN", str(turn)))
given["expirationTimestamp"] = end.strftime("%Y-%m-%dT%H:%M:%SZ")
print(json.dumps({{"apiVersion": asked["apiVersion"], "kind": "ExecCredential", "status": given}}))
"""


class Authority:
    """A certificate authority that lives as long as its test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        self.ca = folder / "ca.crt"
        self.ca.write_bytes(_pem(self._sign("test authority", self.key, None)))

    def issue(self, name: str) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate, private = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        certificate.write_bytes(_pem(self._sign(name, key, name)))
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return certificate, private

    def _sign(
        self, name: str, key: ec.EllipticCurvePrivateKey, host: str | None
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=host is None, path_length=None), critical=True)
        )
        if host:
            names = [x509.DNSName(host)]
            address = [x509.IPAddress(IPv4Address("127.0.0.1"))] if host == "server" else []
            builder = builder.add_extension(
                x509.SubjectAlternativeName([*names, *address]), critical=False
            )
        return builder.sign(self.key, hashes.SHA256())


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


@pytest.fixture(name="authority")
def authority_fixture(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("KUBE", "HTTP", "http", "NO_PROXY", "no_proxy", "ALL_PROXY")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


class Server:
    """A server that accepts the newest token, and records tokens and client certificates."""

    def __init__(self) -> None:
        self.token = ""
        self.got: list[str] = []
        self.names: list[str] = []
        self.port = 0

    async def handle(self, request: web.BaseRequest) -> web.Response:
        self.got.append(request.headers.get("Authorization", ""))
        peer = request.transport.get_extra_info("peercert") if request.transport else None
        if peer:
            self.names.append(dict(part[0] for part in peer["subject"])["commonName"])
        if self.token and self.got[-1] != f"Bearer {self.token}":
            return status(401, "Unauthorized")
        return web.Response(body=b"{}")


@asynccontextmanager
async def tls_server(authority: Authority, name: str = "server") -> AsyncIterator[Server]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.ca))
    context.load_cert_chain(*authority.issue(name))
    context.verify_mode = ssl.CERT_OPTIONAL
    server = Server()
    runner = web.ServerRunner(web.Server(server.handle), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        await runner.cleanup()


def kubeconfig(path: Path, port: int, user: dict[str, object], **cluster: object) -> str:
    """Write a kubeconfig with one context, named after its file."""
    name = path.stem
    content = {
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": {"server": f"https://127.0.0.1:{port}", **cluster}}],
        "users": [{"name": name, "user": user}],
    }
    path.write_text(yaml.safe_dump(content))
    return str(path)


def plugin(folder: Path, given: dict[str, str], seconds: int) -> dict[str, object]:
    """Write an exec plug-in that counts its runs, and return the user section that names it."""
    script = folder / "plugin"
    script.write_text(PLUGIN.format(python=sys.executable, folder=str(folder), seconds=seconds))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "./plugin",  # beside its kubeconfig
            "env": [{"name": "GIVEN", "value": json.dumps(given)}],
            "interactiveMode": "Never",
        }
    }


def turns(folder: Path) -> int:
    return int((folder / "count").read_text())


async def test_a_client_certificate_in_a_kubeconfig_authenticates_us(
    authority: Authority, tmp_path: Path
) -> None:
    certificate, key = authority.issue("alice")
    user: dict[str, object] = {"client-certificate": certificate.name, "client-key": key.name}
    async with tls_server(authority) as server:
        path = kubeconfig(tmp_path / "a", server.port, user, **{"certificate-authority": "ca.crt"})
        async with connect(load(path)) as api:
            assert await api.get("/") == b"{}"
    assert server.names == ["alice"]


async def test_a_server_with_an_untrusted_certificate_is_rejected(
    authority: Authority, tmp_path: Path
) -> None:
    async with tls_server(authority) as server:
        path = kubeconfig(tmp_path / "a", server.port, {"token": "secret"})
        async with connect(load(path)) as api:
            with pytest.raises(Exception, match="certificate verify failed"):
                await api.get("/")
        assert server.got == []
        path = kubeconfig(
            tmp_path / "b", server.port, {"token": "t"}, **{"insecure-skip-tls-verify": True}
        )
        async with connect(load(path)) as api:
            assert await api.get("/") == b"{}"


async def test_tls_server_name_overrides_the_host_of_the_address(
    authority: Authority, tmp_path: Path
) -> None:
    trust: dict[str, object] = {"certificate-authority": "ca.crt"}
    async with tls_server(authority, "inner-name") as server:
        path = kubeconfig(tmp_path / "a", server.port, {"token": "t"}, **trust)
        async with connect(load(path)) as api:
            with pytest.raises(Exception, match=r"not valid for '127.0.0.1'"):
                await api.get("/")
        named = {**trust, "tls-server-name": "inner-name"}
        path = kubeconfig(tmp_path / "b", server.port, {"token": "t"}, **named)
        async with connect(load(path)) as api:
            assert await api.get("/") == b"{}"


def test_a_list_of_kubeconfigs_is_read_as_kubectl_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = kubeconfig(tmp_path / "first", 1, {"token": "one"})
    second = kubeconfig(tmp_path / "second", 2, {"token": "two"})
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/missing:{first}:{second}")
    assert load().server == "https://127.0.0.1:1"
    assert load(context="second").server == "https://127.0.0.1:2"
    assert load(second).server == "https://127.0.0.1:2"


def test_without_any_kubeconfig_the_places_that_were_searched_are_named() -> None:
    with pytest.raises(NoAccess, match=r"no \$KUBECONFIG, no .*/home/.kube/config, and this is no"):
        load()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "does not exist"),
        ("a: [", "cannot be used"),
        ("kind: Config", "names no current context"),
        ("current-context: x\ncontexts: []", "Expected object with name x"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_named(
    tmp_path: Path, content: str | None, words: str
) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    with pytest.raises(NoAccess, match=words):
        load(str(path))
    with pytest.raises(NoAccess, match=words):
        identity.namespace_of_kubeconfig(str(path), None)


async def test_a_plug_in_is_run_again_before_its_token_expires(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "a", 1, plugin(tmp_path, {"token": "TURN"}, seconds=3600))
    access = load(path)
    first = await access.headers()
    assert first == {"Authorization": "Bearer 1"}
    assert await access.headers() is first
    _grow_old(access)
    both = await asyncio.gather(access.headers(), access.headers())
    assert [each["Authorization"] for each in both] == ["Bearer 2", "Bearer 2"]
    assert turns(tmp_path) == 2


async def test_a_token_that_the_server_revokes_is_replaced_and_the_request_repeated(
    authority: Authority, tmp_path: Path
) -> None:
    user = plugin(tmp_path, {"token": "TURN"}, seconds=3600)
    async with tls_server(authority) as server:
        path = kubeconfig(tmp_path / "a", server.port, user, **{"certificate-authority": "ca.crt"})
        async with connect(load(path)) as api:
            await api.get("/")
            server.token = "2"
            answers = await asyncio.gather(*(api.post("/", {}) for _ in range(8)))
            assert answers == [b"{}"] * 8
            assert turns(tmp_path) == 2
            server.token = "another"
            for _ in range(5):
                with pytest.raises(Unauthorized):
                    await api.get("/")
    assert turns(tmp_path) <= 3  # not once for each refusal


async def test_a_certificate_from_a_plug_in_is_used_and_replaced(
    authority: Authority, tmp_path: Path
) -> None:
    def given(name: str) -> dict[str, str]:
        certificate, key = authority.issue(name)
        return {
            "clientCertificateData": certificate.read_text(),
            "clientKeyData": key.read_text(),
        }

    trust: dict[str, object] = {"certificate-authority": "ca.crt"}
    async with tls_server(authority) as server:
        where = tmp_path / "a"
        access = load(
            kubeconfig(where, server.port, plugin(tmp_path, given("before"), 3600), **trust)
        )
        async with connect(access) as api:
            await api.get("/")
            kubeconfig(where, server.port, plugin(tmp_path, given("after"), 3600), **trust)
            assert await access.renew(await access.headers())
            await api.get("/")
    assert server.names == ["before", "after"]


async def test_a_failing_plug_in_is_reported_and_the_old_token_stays_in_use(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "a", 1, plugin(tmp_path, {"token": "TURN"}, seconds=3600))
    access = load(path)
    (tmp_path / "plugin").write_text("#!/bin/sh\necho please log in again >&2\nexit 3\n")
    with pytest.raises(NoAccess, match="please log in again"):
        load(path)
    _grow_old(access)
    assert await access.headers() == {"Authorization": "Bearer 1"}
    assert not await access.renew(await access.headers())


def test_a_plug_in_that_gives_nothing_is_named(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "a", 1, plugin(tmp_path, {}, seconds=3600))
    with pytest.raises(NoAccess, match=r"plug-in ./plugin gave neither a token nor"):
        load(path)


async def test_a_token_file_that_is_rewritten_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one\n")
    access = load(kubeconfig(tmp_path / "a", 1, {"tokenFile": "token"}))
    assert await access.headers() == {"Authorization": "Bearer one"}
    (tmp_path / "token").write_text("two\n")
    _grow_old(access)
    assert await access.headers() == {"Authorization": "Bearer two"}


async def test_in_a_pod_the_service_account_is_used_and_its_token_file_is_read_again(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("one")
    read: Callable[[str], identity.Identity] = identity.from_service_account
    monkeypatch.setattr(identity, "from_service_account", lambda: read(str(tmp_path)))
    async with tls_server(authority) as server:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
        access = load()
        async with connect(access) as api:
            server.token = "one"
            await api.get("/")
            server.token = "two"
            (tmp_path / "token").write_text("two")
            await api.get("/")  # refused, read again, repeated
            server.token = "three"
            (tmp_path / "token").write_text("three")
            _grow_old(access)
            await api.get("/")  # read again in time
    assert server.got == [f"Bearer {each}" for each in ("one", "one", "two", "three")]


def test_a_proxy_is_taken_from_the_kubeconfig_then_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://environment:1")
    server = {"server": "https://far:6443"}
    named = kubeconfig(tmp_path / "a", 1, {}, **server, **{"proxy-url": "http://named:1"})
    plain = kubeconfig(tmp_path / "b", 1, {}, **server)
    near = kubeconfig(tmp_path / "c", 1, {})
    odd = kubeconfig(tmp_path / "d", 1, {}, **server, **{"proxy-url": "socks5://named:1"})
    assert [load(each).proxy for each in (named, plain, near)] == [
        "http://named:1",
        "http://environment:1",
        None,
    ]
    monkeypatch.setenv("NO_PROXY", "far")
    assert load(plain).proxy is None
    with pytest.raises(NoAccess, match="socks5://named:1 cannot be used: only http://"):
        load(odd)


def test_credentials_are_renewed_before_they_expire_but_not_too_often() -> None:
    for good_for_s, wait_s in ((3600.0, 3540.0), (10.0, 8.0), (-5.0, credentials.GAP_S)):
        who = identity.Identity("https://x", None, {}, good_for_s)
        kept = Credentials(lambda who=who: who, who)
        assert kept.wait_s() == pytest.approx(wait_s, abs=0.5)


def _grow_old(access: Access) -> None:
    """Make the credentials due for renewal, as if an hour had passed."""
    access.headers.__self__._renew_at = 0.0  # type: ignore[attr-defined]


# --- the default namespace


@pytest.mark.parametrize(("context", "meant"), [(None, "default"), ("there", "team-a")])
def test_the_namespace_of_the_context_is_the_default(
    tmp_path: Path, context: str | None, meant: str
) -> None:
    named = [("here", {}), ("there", {"namespace": "team-a"})]
    contexts = [{"name": name, "context": {"cluster": "c"} | more} for name, more in named]
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump({"current-context": "here", "contexts": contexts}))
    assert namespace(str(file), context) == meant


def test_in_a_pod_its_own_namespace_is_the_default(tmp_path: Path) -> None:
    (tmp_path / "namespace").write_text("team-b\n")
    assert identity.namespace_of_service_account(str(tmp_path)) == "team-b"


def test_an_unknown_context_has_no_namespace(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump({"current-context": "here", "contexts": []}))
    with pytest.raises(NoAccess, match="cannot be used"):
        namespace(str(file), "elsewhere")
