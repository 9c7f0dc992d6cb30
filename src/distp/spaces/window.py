"""A polynomial that stands in for the projection on one box, as exact as its own check says."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev

from distp.checks import FloatArray, frozen
from distp.spaces.projection import to_degrees, to_km

FIT_KM = 1e-9  # the polynomial is used only where it is this close to the projection, checked at thousands of points
NEAR_KM = 1e-7  # a point so close to an edge is left to the projection itself: a hundred times the error
DEGREES = (4, 6, 8, 10, 12, 16, 20, 24)
_EDGE = 400  # places along each side of the box


class Window(NamedTuple):
    """A rectangle in degrees around a box, and the projection on it.

    With t = (lat - middle) / half height and e = (lon - lon0) / half width, both in [-1, 1], and s = 2 e^2 - 1:
    x = e X(t, s) and y = Y(t, s), since east and west of the anchor mirror each other.

    Attributes
    ----------
    frame : ndarray, shape (4,)
        Middle latitude, 1 / half height, anchor longitude, 1 / half width (degrees).
    x, y : ndarray, shape (N / 2 + 1, N + 1)
        Coefficient [j, i] belongs to s^j t^i; zero where i + 2 j > N.
    """

    frame: FloatArray
    x: FloatArray
    y: FloatArray

    def project(self, lat: FloatArray, lon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return km east and north of the anchor, within `FIT_KM`; infinite outside the rectangle."""
        middle, per_height, lon0, per_width = self.frame.tolist()
        t, e = (lat - middle) * per_height, ((lon - lon0 + 540) % 360 - 180) * per_width
        s = 2 * e**2 - 1
        inside = (np.abs(t) <= 1) & (np.abs(e) <= 1)
        return (
            np.where(inside, e * _value(self.x, t, s), np.inf),
            np.where(inside, _value(self.y, t, s), np.inf),
        )


def fit_window(lat0: float, lon0: float, extent: tuple[float, float, float, float]) -> Window | None:
    """Return the window of a box (west, south, east, north in km), or None where only the projection will do.

    That is: a box that reaches a pole, or spans so much of the Earth that no polynomial tried is close enough.
    """
    frame = _frame(lat0, lon0, extent)
    if frame is None:
        return None
    middle, height, width = frame
    rng = np.random.default_rng(0)
    ticks = np.linspace(-1, 1, 41)
    t_check = np.concatenate([np.repeat(ticks, 41), rng.uniform(-1, 1, 4000)])
    e_check = np.concatenate([np.tile(ticks, 41), rng.uniform(-1, 1, 4000)])

    def exact(t: FloatArray, e: FloatArray) -> tuple[FloatArray, FloatArray]:
        lon = (lon0 + e * width + 180) % 360 - 180
        return to_km(lat0, lon0, middle + t * height, lon)

    wanted = exact(t_check, e_check)
    for degree in DEGREES:
        nodes = np.cos(np.pi * (np.arange(degree + 6) + 0.5) / (degree + 6))
        t, e = np.repeat(nodes, nodes.size), np.tile(nodes, nodes.size)
        x, y = exact(t, e)
        fitted = [_fit(t, e, x, degree, odd=True), _fit(t, e, y, degree, odd=False)]
        s_check = 2 * e_check**2 - 1
        errors = [
            np.abs(_value(fitted[0], t_check, s_check) * e_check - wanted[0]).max(),
            np.abs(_value(fitted[1], t_check, s_check) - wanted[1]).max(),
        ]
        if max(errors) < FIT_KM:
            numbers = np.array([middle, 1 / height, lon0, 1 / width])
            return Window(frozen(numbers), frozen(fitted[0]), frozen(fitted[1]))
    return None


def _frame(lat0: float, lon0: float, extent: tuple[float, float, float, float]) -> tuple[float, float, float] | None:
    """Return middle latitude, half height and half width (degrees) of a window that surely holds the box."""
    west, south, east, north = extent
    # The map is one to one, so latitude and longitude are extreme on the box's rim, unless a pole lies inside.
    pad = 0.01 * max(east - west, north - south)
    west, south, east, north = west - pad, south - pad, east + pad, north + pad
    for pole in (90.0, -90.0):
        x, y = to_km(lat0, lon0, [pole], [lon0])
        if west <= x[0] <= east and south <= y[0] <= north:
            return None
    along = np.linspace(0, 1, _EDGE)
    flat, up = west + along * (east - west), south + along * (north - south)
    x = np.concatenate([flat, flat, np.full(_EDGE, west), np.full(_EDGE, east)])
    y = np.concatenate([np.full(_EDGE, south), np.full(_EDGE, north), up, up])
    if np.hypot(x, y).max() > 9_000:  # beyond that the map folds up towards the antipode
        return None
    lat, lon = to_degrees(lat0, lon0, x, y)
    away = np.abs((lon - lon0 + 180) % 360 - 180)
    # Between two places of the rim a curve may bulge a little: far less than this one per cent.
    height = 1.01 * (lat.max() - lat.min()) / 2 + 1e-7
    width = 1.01 * away.max() + 1e-7
    return (lat.max() + lat.min()) / 2, height, width


def _fit(t: FloatArray, e: FloatArray, values: FloatArray, degree: int, *, odd: bool) -> FloatArray:
    """Return monomial coefficients [j, i] of s^j t^i, fitted in Chebyshev polynomials."""
    kept = [(j, i) for j in range(degree // 2 + 1) for i in range(degree - 2 * j + 1)]
    in_t, in_s = chebyshev.chebvander(t, degree), chebyshev.chebvander(2 * e**2 - 1, degree // 2)
    design = np.column_stack([in_s[:, j] * in_t[:, i] for j, i in kept])
    if odd:
        design *= e[:, None]
    solved, *_ = np.linalg.lstsq(design, values, rcond=None)
    cheb = np.zeros((degree // 2 + 1, degree + 1))
    cheb[tuple(np.array(kept).T)] = solved
    return _monomials(degree // 2).T @ cheb @ _monomials(degree)


def _monomials(degree: int) -> FloatArray:
    """Return the matrix whose row n holds the monomial coefficients of the n-th Chebyshev polynomial."""
    rows = np.zeros((degree + 1, degree + 1))
    for n, unit in enumerate(np.eye(degree + 1)):
        row = chebyshev.cheb2poly(unit)
        rows[n, : row.size] = row
    return rows


def _value(coefficients: FloatArray, t: FloatArray, s: FloatArray) -> FloatArray:
    """Evaluate as the compiled loop does: Horner's rule in t inside Horner's rule in s."""
    total = np.zeros_like(t)
    for j in range(coefficients.shape[0] - 1, -1, -1):
        row = np.zeros_like(t)
        for i in range(coefficients.shape[1] - 1 - 2 * j, -1, -1):
            row = row * t + coefficients[j, i]
        total = total * s + row
    return total
