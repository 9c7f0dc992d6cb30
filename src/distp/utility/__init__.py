"""Quality loss: how far the report that a service uses lies from the true input."""

from distp.utility.loss import expected_loss, loss_matrix, mean_loss, real_report_loss, worst_loss

__all__ = ["expected_loss", "loss_matrix", "mean_loss", "real_report_loss", "worst_loss"]
