"""What an attacker can infer from reports."""

from distp.attacks.bayes import AttackSuccess, attack_success, success_limit

__all__ = ["AttackSuccess", "attack_success", "success_limit"]
