"""Figures and the self-contained HTML report of a comparison."""

from __future__ import annotations

from gazeattn.report.html import write_report

__all__ = ["write_report"]
