"""Figures and the page that shows them: thin, no mathematics."""

from distp.report.page import Study, write_report

__all__ = ["Study", "write_report"]
