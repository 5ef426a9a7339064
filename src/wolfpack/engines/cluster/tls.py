"""The certificates of a cluster that encrypts its traffic."""

import os

CERTIFICATES = ("RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT")


def check_certificates() -> None:
    """Refuse TLS without certificates, for which Ray would wait half a minute."""
    if os.environ.get("RAY_USE_TLS", "").lower() not in ("1", "true"):
        return
    paths = [os.environ.get(name, "") for name in CERTIFICATES]
    for name, path in zip(CERTIFICATES, paths, strict=True):
        try:
            open(path, "rb").close()
        except OSError as error:
            raise ValueError(
                f"RAY_USE_TLS is set, so {name} must be the path of a PEM file; it is "
                f"{path!r} ({error.strerror}). Set it, or unset RAY_USE_TLS."
            ) from error
    import ssl

    context, (certificate, key, ca) = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), paths
    try:
        context.set_ciphers("ALL:@SECLEVEL=0")  # Ray decides about short keys
        context.load_cert_chain(certificate, key, password="")
        context.load_verify_locations(ca)
    except ssl.SSLError as error:
        raise ValueError(
            f"{CERTIFICATES[0]}, {CERTIFICATES[1]} and {CERTIFICATES[2]} must be PEM "
            "files of a certificate, its key and the CA that signed it; they are "
            f"{certificate}, {key} and {ca} ({error})."
        ) from error
