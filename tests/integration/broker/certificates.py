"""A certificate authority for one test, and certificates of its making."""

import datetime as dt
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class Authority:
    """Signs certificates; `file` is what its clients must trust."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        self.file = folder / "authority.pem"
        signed = (
            self._certificate(self._name, self._key.public_key(), days=1)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_SIGNS_CERTIFICATES, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))

    def server_context(self, host: str, *, days: int = 1) -> ssl.SSLContext:
        """Return a server's side of TLS for `host`; expired when `days` is below 0."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server_file(host, days=days))
        return context

    def server_file(self, host: str, *, days: int = 1) -> Path:
        """Return a file with a server's key and certificate for `host`."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        address = x509.IPAddress(ipaddress.ip_address(host))
        signed = (
            self._certificate(subject, key.public_key(), days=days)
            .add_extension(x509.SubjectAlternativeName([address]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        file = self._folder / f"{host}.{days}.pem"
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + signed.public_bytes(serialization.Encoding.PEM)
        )
        return file

    def _certificate(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *, days: int
    ) -> x509.CertificateBuilder:
        """Return a certificate with both key identifiers: a strict check demands them."""
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=10))
            .not_valid_after(now + dt.timedelta(days=days))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
