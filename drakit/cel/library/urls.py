"""Kubernetes' URL values: Go's net/url, as far as requests need it."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from drakit.api.errors import go_quote
from drakit.cel.functions import CLASSES, Function, function, overload
from drakit.cel.library.network import ParseError, parse_address
from drakit.cel.values import Fault, refusing_equality

__all__ = ["FUNCTIONS", "URL", "parse_request_uri"]


class URL:
    """A parsed URL; `host` includes the port."""

    __slots__ = (
        "force_query",
        "fragment",
        "host",
        "omit_host",
        "opaque",
        "path",
        "query",
        "raw_path",
        "scheme",
        "user",
    )
    cel_type: ClassVar[str] = "kubernetes.URL"

    def __init__(self) -> None:
        self.scheme = self.opaque = self.host = self.path = self.raw_path = self.query = self.fragment = ""
        self.user: str | None = None
        self.force_query = self.omit_host = False

    def cel_equal(self, other: Any) -> bool | None:
        return str(self) == str(other) if other.__class__ is URL else None

    __eq__ = refusing_equality
    __hash__ = object.__hash__

    def escaped_path(self) -> str:
        if self.raw_path and _VALID_PATH.match(self.raw_path) and _unescape(self.raw_path) == self.path:
            return self.raw_path
        return "*" if self.path == "*" else _escape(self.path)

    def hostname(self) -> str:
        if self.host.startswith("[") and "]" in self.host:
            return self.host[1 : self.host.index("]")]
        return self.host.split(":", 1)[0] if self.port() or self.host.endswith(":") else self.host

    def port(self) -> str:
        after = self.host[self.host.index("]") + 1 :] if "]" in self.host else self.host
        _, colon, port = after.rpartition(":")
        return port if colon and (not port or port.isdigit()) else ""

    def __str__(self) -> str:
        out = f"{self.scheme}:" if self.scheme else ""
        if self.opaque:
            out += self.opaque
        else:
            out += self._hierarchy()
        if self.force_query or self.query:
            out += "?" + self.query
        if self.fragment:
            out += "#" + self.fragment
        return out

    def _hierarchy(self) -> str:
        path = self.escaped_path()
        out = ""
        if (self.scheme or self.host or self.user is not None) and not (
            self.omit_host and not self.host and self.user is None
        ):
            if self.host or self.path or self.user is not None:
                out += "//"
            if self.user is not None:
                out += f"{self.user}@"
            out += self.host
        if path and not path.startswith("/") and self.host:
            out += "/"
        return out + path


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PORT = re.compile(r"(?::[0-9]*)?\Z")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.S)
_BAD_HOST = re.compile(r"[^\x80-\U0010ffffA-Za-z0-9\-_.~!$&'()*+,;=:\[\]<>\"%]")
_USERINFO = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*\Z")
_VALID_PATH = re.compile(r"(?:[A-Za-z0-9\-_.~!$&'()*+,;=:@/\[\]]|%[0-9A-Fa-f]{2})*\Z")


def parse_request_uri(text: str) -> URL:
    """Go's url.ParseRequestURI; raises ParseError."""
    try:
        return _parse(text, True)
    except ParseError as error:
        raise ParseError(f"parse {go_quote(text)}: {error}") from None


def _parse_any(text: str) -> URL:
    head, _, fragment = text.partition("#")
    try:
        url = _parse(head, False)
    except ParseError as error:
        raise ParseError(f"parse {go_quote(head)}: {error}") from None
    url.fragment = fragment
    return url


def _parse(text: str, via_request: bool) -> URL:
    if _CONTROL.search(text):
        raise ParseError("net/url: invalid control character in URL")
    if not text and via_request:
        raise ParseError("empty url")
    url = URL()
    if text == "*":
        url.path = "*"
        return url
    rest = text
    found = _SCHEME.match(text)
    if found is not None:
        url.scheme, rest = found[1].lower(), text[found.end() :]
    elif text.startswith(":"):
        raise ParseError("missing protocol scheme")
    if rest.endswith("?") and rest.count("?") == 1:
        url.force_query, rest = True, rest[:-1]
    else:
        rest, _, url.query = rest.partition("?")
    if not rest.startswith("/"):
        if url.scheme:
            url.opaque = rest
            return url
        if via_request:
            raise ParseError("invalid URI for request")
        if ":" in rest.split("/", 1)[0]:
            raise ParseError("first path segment in URL cannot contain colon")
    if rest.startswith("//") and (url.scheme or (not via_request and not rest.startswith("///"))):
        authority, slash, tail = rest[2:].partition("/")
        rest = slash + tail
        url.user, url.host = _authority(url.scheme, authority)
    elif url.scheme and rest.startswith("/"):
        url.omit_host = True
    url.path = _unescape(rest)
    url.raw_path = "" if _escape(url.path) == rest else rest
    return url


def _authority(scheme: str, authority: str) -> tuple[str | None, str]:
    user, at, host = authority.rpartition("@")
    host = _host(scheme, host)
    if not at:
        return None, host
    if not _USERINFO.match(user):
        raise ParseError("net/url: invalid userinfo")
    _unescape(user)
    return user, host


def _host(scheme: str, host: str) -> str:
    bracket = host.rfind("[")
    if bracket > 0:
        raise ParseError("invalid IP-literal")
    if bracket == 0:
        closing = host.rfind("]")
        if closing < 0:
            raise ParseError("missing ']' in host")
        port = host[closing + 1 :]
        _check_port(port)
        name = _unescape_host(host[1:closing])
        try:
            address, _ = parse_address(name)
        except ParseError as error:
            raise ParseError(f"invalid host: {error}") from None
        if address.version == 4:
            raise ParseError("invalid IP-literal")
        return f"[{name}]{port}"
    colon = host.find(":")
    if colon >= 0:
        if host.rfind(":") != colon and scheme not in ("http", "https"):
            colon = host.rfind(":")
        _check_port(host[colon:])
    return _unescape_host(host)


def _check_port(port: str) -> None:
    if not _PORT.match(port):
        raise ParseError(f"invalid port {go_quote(port)} after host")


def _unescape_host(host: str) -> str:
    found = _BAD_HOST.search(host)
    if found is not None:
        raise ParseError(f"invalid character {go_quote(found[0])} in host name")
    bad = re.search(r"%(?!25)[0-7][0-9A-Fa-f]", host)
    if bad is not None:
        raise ParseError(f"invalid URL escape {go_quote(bad[0])}")
    return _unescape(host)


def _unescape(text: str) -> str:
    if "%" not in text:
        return text
    bad = _BAD_ESCAPE.search(text)
    if bad is not None:
        raise ParseError(f"invalid URL escape {go_quote(bad[0])}")
    raw = re.sub(rb"%([0-9A-Fa-f]{2})", lambda m: bytes([int(m[1], 16)]), text.encode("utf-8", "surrogateescape"))
    return raw.decode("utf-8", "surrogateescape")


_PATH_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~$&+,/:;=@")


def _escape(path: str) -> str:
    raw = path.encode("utf-8", "surrogateescape")
    return "".join(chr(b) if b in _PATH_SAFE else f"%{b:02X}" for b in raw)


def _url(text: str) -> URL:
    try:
        parse_request_uri(text)
        return _parse_any(text)
    except ParseError as error:
        raise Fault(f"URL parse error during conversion from string: {error}") from None


def _query(url: URL) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pair in url.query.split("&"):
        if not pair or ";" in pair:
            continue
        key, _, value = pair.partition("=")
        try:
            key, value = (_unescape(part.replace("+", "%20")) for part in (key, value))
        except ParseError:
            continue
        found.setdefault(key, []).append(value)
    return found


def _is_url(text: str) -> bool:
    try:
        parse_request_uri(text)
    except ParseError:
        return False
    return True


CLASSES[URL.cel_type] = URL
FUNCTIONS: list[Function] = [
    function("url", overload("string_to_url", "(string) -> kubernetes.URL", _url)),
    function("getScheme", overload("url_get_scheme", "kubernetes.URL.() -> string", lambda v: v.scheme)),
    function("getHost", overload("url_get_host", "kubernetes.URL.() -> string", lambda v: v.host)),
    function("getHostname", overload("url_get_hostname", "kubernetes.URL.() -> string", lambda v: v.hostname())),
    function("getPort", overload("url_get_port", "kubernetes.URL.() -> string", lambda v: v.port())),
    function(
        "getEscapedPath", overload("url_get_escaped_path", "kubernetes.URL.() -> string", lambda v: v.escaped_path())
    ),
    function("getQuery", overload("url_get_query", "kubernetes.URL.() -> map(string, list(string))", _query)),
    function("isURL", overload("is_url_string", "(string) -> bool", _is_url)),
]
