"""Is a point a solution? KKT residuals in the user's units, the multipliers that fit best, the best point of a run."""

from __future__ import annotations

from auglag.certificate.kkt import certificate
from auglag.certificate.record import Certificate
from auglag.certificate.splitting import settle_rows
from auglag.certificate.tolerance import Tolerance

__all__ = ["Certificate", "Tolerance", "certificate", "settle_rows"]
