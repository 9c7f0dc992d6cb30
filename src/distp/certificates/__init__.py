"""What a mechanism was found to do: privacy, loss and attack success, with the assumptions in words."""

from distp.certificates.certificate import Certificate, PairCertificate, certify

__all__ = ["Certificate", "PairCertificate", "certify"]
