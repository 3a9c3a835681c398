"""The server's own certificate authority, made on the first start: server certificate, administrator's certificate and token.

Files in the data folder, private ones with mode 0600: ca.crt, ca.key, server.crt, server.key, admin.crt, admin.key,
admin.token. A certificate that is about to end or lacks a wanted name is made anew under the same CA, also while the server runs
(`renew`). The authority itself is renewed with its key, so that what it signed stays good.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

__all__ = ["Credentials", "load_or_create", "server_context"]

NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "127.0.0.1", "::1", "10.96.0.1")
_AUTHORITY = timedelta(days=3650)
_LEAF = timedelta(days=365)
_RENEW = timedelta(days=30)  # before the end
_RENEW_AUTHORITY = timedelta(days=400)  # so that it outlives every certificate it signs


@dataclass(frozen=True, slots=True)
class Credentials:
    folder: Path
    token: str

    def path(self, name: str) -> Path:
        return self.folder / name

    @property
    def ca(self) -> bytes:
        return self.path("ca.crt").read_bytes()


def load_or_create(folder: Path, names: tuple[str, ...] = NAMES) -> Credentials:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    renew(folder, datetime.now(UTC), names)
    token = folder / "admin.token"
    if not token.exists():
        write_private(token, secrets.token_urlsafe(32).encode())
    return Credentials(folder, token.read_text().strip())


def renew(folder: Path, now: datetime, names: tuple[str, ...] = NAMES) -> bool:
    """Make what is missing or about to end; whether the server has to read its certificates again."""
    authority = not (folder / "ca.key").exists() or _needs_new(folder, "ca", (), now, _RENEW_AUTHORITY)
    if authority:
        _make_authority(folder, now)
    server = _needs_new(folder, "server", names, now)
    if server:
        _issue(folder, "server", "kube-apiserver", (), names, now)
    if _needs_new(folder, "admin", (), now):
        _issue(folder, "admin", "kubernetes-admin", ("system:masters",), (), now)
    return authority or server


def issue(folder: Path, file: str, user: str, groups: tuple[str, ...]) -> None:
    """A client certificate FILE.crt with its key FILE.key: for node agents and other components outside the process."""
    _issue(folder, file, user, groups, (), datetime.now(UTC))


def server_context(credentials: Credentials) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    read_certificates(context, credentials)
    context.verify_mode = ssl.CERT_OPTIONAL  # a certificate, a token, or nobody
    context.set_alpn_protocols(["http/1.1"])
    return context


def read_certificates(context: ssl.SSLContext, credentials: Credentials) -> None:
    """Into a context in use: connections made from now on see them."""
    context.load_cert_chain(credentials.path("server.crt"), credentials.path("server.key"))
    context.load_verify_locations(credentials.path("ca.crt"))


def write_private(path: Path, content: bytes) -> None:
    """Whole or not at all, and never readable by others."""
    partial = path.with_name(path.name + ".partial")
    descriptor = os.open(partial, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, content)
    finally:
        os.close(descriptor)
    os.replace(partial, path)


def _subject(user: str, groups: tuple[str, ...]) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _private_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, now: datetime, lasting: timedelta
) -> x509.CertificateBuilder:
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + lasting)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _make_authority(folder: Path, now: datetime) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    if (folder / "ca.key").exists():
        loaded = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)
        key = loaded
    else:
        key = ec.generate_private_key(ec.SECP256R1())
    name = _subject("drakit-ca", ())
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    certificate = (
        _builder(name, name, key.public_key(), now, _AUTHORITY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    write_private(folder / "ca.key", _private_bytes(key))
    write_private(folder / "ca.crt", certificate.public_bytes(serialization.Encoding.PEM))


def _issue(folder: Path, file: str, user: str, groups: tuple[str, ...], names: tuple[str, ...], now: datetime) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    authority = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
    signer = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if names else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = (
        _builder(_subject(user, groups), authority.subject, key.public_key(), now, _LEAF)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(True, False, True, False, False, False, False, False, False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if names:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False
        )
    certificate = builder.sign(signer, hashes.SHA256())
    write_private(folder / f"{file}.key", _private_bytes(key))
    write_private(folder / f"{file}.crt", certificate.public_bytes(serialization.Encoding.PEM))


def _general_name(name: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _needs_new(folder: Path, file: str, names: tuple[str, ...], now: datetime, before: timedelta = _RENEW) -> bool:
    certificate, key = folder / f"{file}.crt", folder / f"{file}.key"
    if not certificate.exists() or not key.exists():
        return True
    from cryptography import x509

    try:
        loaded = x509.load_pem_x509_certificate(certificate.read_bytes())
    except ValueError:
        return True
    if loaded.not_valid_after_utc - now < before:
        return True
    if not names:
        return False
    present = loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return any(_general_name(name) not in present for name in names)
