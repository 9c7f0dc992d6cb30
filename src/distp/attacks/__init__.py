"""What an attacker can infer from reports."""

from distp.attacks.bayes import AttackSuccess, attack_success, success_limit
from distp.attacks.location import LocationAttack, location_attack
from distp.attacks.posterior import bayes_factor, posterior

__all__ = [
    "AttackSuccess",
    "LocationAttack",
    "attack_success",
    "bayes_factor",
    "location_attack",
    "posterior",
    "success_limit",
]
