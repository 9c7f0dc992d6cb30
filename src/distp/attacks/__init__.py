"""What an attacker can infer from reports."""

from distp.attacks.bayes import AttackSuccess, attack_success, success_limit
from distp.attacks.posterior import bayes_factor, posterior

__all__ = ["AttackSuccess", "attack_success", "bayes_factor", "posterior", "success_limit"]
