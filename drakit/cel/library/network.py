"""Kubernetes' IP and CIDR values: parsing as Go's netip does, with its error texts."""

from __future__ import annotations

import math
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, ClassVar

from drakit.api.errors import go_quote
from drakit.cel.functions import CLASSES, Function, function, overload
from drakit.cel.values import Fault, no_overload, refusing_equality

__all__ = ["CIDR", "FUNCTIONS", "IP", "ParseError", "parse_address"]


class ParseError(ValueError):
    """Text that is no address; the text is Go's."""


class IP:
    """`ip('10.0.0.1')`."""

    __slots__ = ("address",)
    cel_type: ClassVar[str] = "net.IP"

    def __init__(self, address: IPv4Address | IPv6Address) -> None:
        self.address = address

    def cel_equal(self, other: Any) -> bool | None:
        return self.address == other.address if other.__class__ is IP else None

    __eq__ = refusing_equality
    __hash__ = object.__hash__

    def cel_size(self) -> int:
        return self.address.max_prefixlen // 8

    def __str__(self) -> str:
        return show_address(self.address)


class CIDR:
    """`cidr('10.0.0.0/8')`; host bits are kept."""

    __slots__ = ("address", "bits")
    cel_type: ClassVar[str] = "net.CIDR"

    def __init__(self, address: IPv4Address | IPv6Address, bits: int) -> None:
        self.address = address
        self.bits = bits

    def cel_equal(self, other: Any) -> bool | None:
        if other.__class__ is not CIDR:
            return None
        return bool(self.address == other.address and self.bits == other.bits)

    __eq__ = refusing_equality
    __hash__ = object.__hash__

    def cel_size(self) -> int:
        return math.ceil(self.bits / 8)

    def masked(self) -> CIDR:
        width = self.address.max_prefixlen
        number = int(self.address) >> (width - self.bits) << (width - self.bits)
        return CIDR(self.address.__class__(number), self.bits)

    def contains(self, address: IPv4Address | IPv6Address) -> bool:
        if address.version != self.address.version:
            return False
        shift = self.address.max_prefixlen - self.bits
        return int(address) >> shift == int(self.address) >> shift

    def __str__(self) -> str:
        return f"{show_address(self.address)}/{self.bits}"


def show_address(address: IPv4Address | IPv6Address) -> str:
    """Go prints an IPv4-mapped address with dots; the rest is as RFC 5952 says."""
    if address.version == 6 and address.ipv4_mapped is not None:
        return f"::ffff:{address.ipv4_mapped}"
    return str(address)


def _bad(text: str, message: str, at: str = "") -> ParseError:
    where = f" (at {go_quote(at)})" if at else ""
    return ParseError(f"ParseAddr({go_quote(text)}): {message}{where}")


def parse_address(text: str) -> tuple[IPv4Address | IPv6Address, str]:
    """The address and its zone ("" without one)."""
    for ch in text:
        if ch == ".":
            return IPv4Address(bytes(_octets(text, text))), ""
        if ch == ":":
            return _parse_v6(text)
        if ch == "%":
            raise _bad(text, "missing IPv6 address")
    raise _bad(text, "unable to parse IP")


def _octets(text: str, part: str) -> list[int]:
    octets: list[int] = []
    value = digits = 0
    for i, ch in enumerate(part):
        if ch in "0123456789":
            if digits == 1 and value == 0:
                raise _bad(text, "IPv4 field has octet with leading zero")
            value = value * 10 + int(ch)
            digits += 1
            if value > 255:
                raise _bad(text, "IPv4 field has value >255")
        elif ch == ".":
            if i == 0 or i == len(part) - 1 or part[i - 1] == ".":
                raise _bad(text, "IPv4 field must have at least one digit", part[i:])
            if len(octets) == 3:
                raise _bad(text, "IPv4 address too long")
            octets.append(value)
            value = digits = 0
        else:
            raise _bad(text, "unexpected character", part[i:])
    if len(octets) < 3:
        raise _bad(text, "IPv4 address too short")
    return [*octets, value]


def _parse_v6(text: str) -> tuple[IPv6Address, str]:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise _bad(text, "zone must be a non-empty string")
    groups, ellipsis = _groups(text, rest)
    if len(groups) < 16:
        if ellipsis < 0:
            raise _bad(text, "address string too short")
        groups[ellipsis:ellipsis] = [0] * (16 - len(groups))
    elif ellipsis >= 0:
        raise _bad(text, "the :: must expand to at least one field of zeros")
    return IPv6Address(bytes(groups)), zone


def _groups(text: str, rest: str) -> tuple[list[int], int]:
    """The bytes written out, and where `::` stands among them (-1: nowhere)."""
    out: list[int] = []
    ellipsis = -1
    if rest.startswith("::"):
        ellipsis, rest = 0, rest[2:]
        if not rest:
            return out, ellipsis
    while len(out) < 16:
        length = 0
        while length < len(rest) and rest[length] in "0123456789abcdefABCDEF":
            length += 1
            if length > 4:
                raise _bad(text, "each group must have 4 or less digits", rest)
        if length == 0:
            raise _bad(text, "each colon-separated field must have at least one digit", rest)
        if rest[length : length + 1] == ".":
            if ellipsis < 0 and len(out) != 12:
                raise _bad(text, "embedded IPv4 address must replace the final 2 fields of the address", rest)
            if len(out) + 4 > 16:
                raise _bad(text, "too many hex fields to fit an embedded IPv4 at the end of the address", rest)
            out += _octets(text, rest)
            return out, ellipsis
        group = int(rest[:length], 16)
        out += [group >> 8, group & 255]
        rest = rest[length:]
        if not rest:
            return out, ellipsis
        if rest[0] != ":":
            raise _bad(text, "unexpected character, want colon", rest)
        if len(rest) == 1:
            raise _bad(text, "colon must be followed by more characters", rest)
        rest = rest[1:]
        if rest[0] == ":":
            if ellipsis >= 0:
                raise _bad(text, "multiple :: in address", rest)
            ellipsis, rest = len(out), rest[1:]
            if not rest:
                return out, ellipsis
    raise _bad(text, "trailing garbage after address", rest)


def _ip(text: str) -> IP:
    try:
        address, zone = parse_address(text)
    except ParseError as error:
        raise Fault(f"IP Address {go_quote(text)} parse error during conversion from string: {error}") from None
    if zone:
        raise Fault(f"IP address {go_quote(text)} with zone value is not allowed")
    if address.version == 6 and address.ipv4_mapped is not None:
        raise Fault(f"IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
    return IP(address)


_CIDR_ERROR = "network address parse error during conversion from string: "


def _cidr(text: str) -> CIDR:
    try:
        return _prefix(text)
    except ParseError as error:
        raise Fault(f"{_CIDR_ERROR}{error}") from None


def _prefix(text: str) -> CIDR:
    head, slash, length = text.rpartition("/")
    prefix = f"{_CIDR_ERROR}netip.ParsePrefix({go_quote(text)}): "
    if not slash:
        raise ParseError(f"{prefix}no '/'")
    try:
        address, zone = parse_address(head)
    except ParseError as error:
        raise ParseError(f"{prefix}{error}") from None
    if zone:
        raise ParseError(f"{prefix}IPv6 zones cannot be present in a prefix")
    if not (length.isascii() and length.isdigit()) or (len(length) > 1 and length[0] == "0") or len(length) > 9:
        raise ParseError(f"{prefix}bad bits after slash: {go_quote(length)}")
    if int(length) > address.max_prefixlen:
        raise ParseError(f"{prefix}prefix length out of range")
    if address.version == 6 and address.ipv4_mapped is not None:
        raise ParseError(f"IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
    return CIDR(address, int(length))


def _faultless(parse: Any, text: str) -> bool:
    try:
        parse(text)
    except Fault:
        return False
    return True


def _contains_ip_text(outer: CIDR, text: str) -> bool:
    """Kubernetes loses the reason when the text is no address."""
    try:
        address = _ip(text).address
    except Fault:
        raise no_overload() from None
    return outer.contains(address)


def _contains_cidr(outer: CIDR, inner: CIDR) -> bool:
    if outer.bits > inner.bits:
        return False
    return outer.contains(inner.address)


def _link_local_multicast(value: IP) -> bool:
    address = value.address
    if address.version == 4:
        return bool(address in _LINK_LOCAL_MULTICAST_V4)
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02


class _Range:
    def __init__(self, text: str) -> None:
        self.cidr = _prefix(text)

    def __contains__(self, address: IPv4Address | IPv6Address) -> bool:
        return self.cidr.contains(address)


_LINK_LOCAL_MULTICAST_V4 = _Range("224.0.0.0/24")
_LINK_LOCAL_V4 = _Range("169.254.0.0/16")
_LINK_LOCAL_V6 = _Range("fe80::/10")
_LOOPBACK_V4 = _Range("127.0.0.0/8")
_MULTICAST_V4 = _Range("224.0.0.0/4")
_MULTICAST_V6 = _Range("ff00::/8")


def _link_local(value: IP) -> bool:
    return value.address in (_LINK_LOCAL_V4 if value.address.version == 4 else _LINK_LOCAL_V6)


def _loopback(value: IP) -> bool:
    if value.address.version == 4:
        return value.address in _LOOPBACK_V4
    return value.address == ip_address("::1")


def _global_unicast(value: IP) -> bool:
    address = value.address
    multicast = address in (_MULTICAST_V4 if address.version == 4 else _MULTICAST_V6)
    broadcast = address == IPv4Address("255.255.255.255")
    return not (broadcast or int(address) == 0 or _loopback(value) or multicast or _link_local(value))


CLASSES.update({IP.cel_type: IP, CIDR.cel_type: CIDR})
FUNCTIONS: list[Function] = [
    function(
        "ip",
        overload("string_to_ip", "(string) -> net.IP", _ip),
        overload("cidr_ip", "net.CIDR.() -> net.IP", lambda v: IP(v.address)),
    ),
    function("family", overload("ip_family", "net.IP.() -> int", lambda v: v.address.version)),
    function("ip.isCanonical", overload("ip_is_canonical", "(string) -> bool", lambda v: str(_ip(v)) == v)),
    function("isUnspecified", overload("ip_is_unspecified", "net.IP.() -> bool", lambda v: int(v.address) == 0)),
    function("isLoopback", overload("ip_is_loopback", "net.IP.() -> bool", _loopback)),
    function("isLinkLocalMulticast", overload("ip_is_link_local_multicast", "net.IP.() -> bool", _link_local_multicast)),
    function("isLinkLocalUnicast", overload("ip_is_link_local_unicast", "net.IP.() -> bool", _link_local)),
    function("isGlobalUnicast", overload("ip_is_global_unicast", "net.IP.() -> bool", _global_unicast)),
    function("isIP", overload("is_ip", "(string) -> bool", lambda v: _faultless(_ip, v))),
    function("string", overload("ip_to_string", "(net.IP) -> string", str), overload("cidr_to_string", "(net.CIDR) -> string", str)),
    function("cidr", overload("string_to_cidr", "(string) -> net.CIDR", _cidr)),
    function(
        "containsIP",
        overload("cidr_contains_ip_string", "net.CIDR.(string) -> bool", _contains_ip_text),
        overload("cidr_contains_ip_ip", "net.CIDR.(net.IP) -> bool", lambda c, v: c.contains(v.address)),
    ),
    function(
        "containsCIDR",
        overload("cidr_contains_cidr_string", "net.CIDR.(string) -> bool", lambda c, v: _contains_cidr(c, _cidr(v))),
        overload("cidr_contains_cidr", "net.CIDR.(net.CIDR) -> bool", _contains_cidr),
    ),
    function("prefixLength", overload("cidr_prefix_length", "net.CIDR.() -> int", lambda v: v.bits)),
    function("masked", overload("cidr_masked", "net.CIDR.() -> net.CIDR", lambda v: v.masked())),
    function("isCIDR", overload("is_cidr", "(string) -> bool", lambda v: _faultless(_cidr, v))),
]  # fmt: skip
