"""What a mechanism was found to do: privacy, loss and attack success, with the assumptions in words."""

from distp.certificates.certificate import Certificate, PairCertificate, certify, mean_law
from distp.certificates.population import Population, halves, population

__all__ = ["Certificate", "PairCertificate", "Population", "certify", "halves", "mean_law", "population"]
