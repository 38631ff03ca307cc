"""The heavy top: a spinning body whose tip is held in place by a constraint.

[ACB15] M. Arnold, A. Cardona, O. Bruels, Order reduction in time integration caused by velocity projection, J. Mech.
        Sci. Technol. 29 (2015): the benchmark on R^3 x SO(3), q' = q v~.

The state is x, R (position of the centre of mass, attitude) and v = (x', Omega); on SE(3) v = (R^T x', Omega). The
reaction lam of the first form is a force in the inertial frame; the second form writes its constraint in the body
frame, where its gradient is constant, and has R^T lam.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from dalembert import spaces
from dalembert.model.system import System
from dalembert.problems.base import Problem, Published, register
from dalembert.problems.minimal import ATOL, RTOL, minimal_coordinates
from dalembert.problems.rotations import matrix_of, quaternion_rate

M, J = 15.0, np.diag([0.234375, 0.46875, 0.234375])
X, GRAVITY = np.array([0.0, 1.0, 0.0]), np.array([0.0, 0.0, -9.81])
OMEGA0 = np.array([0.0, 150.0, -4.61538])
MASS = np.diag([M, M, M, *np.diag(J)])
ABOUT_TIP = J + M * (X @ X * np.eye(3) - np.outer(X, X))

# Taylor series of the reduced top in 40 digits, rounded; lam belongs to the constraint -x + R X = 0
PUBLISHED: dict[float, dict[str, Any]] = {
    0.1: {
        "x": [0.421296658925402, 0.894571974345593, -0.14916470056189962],
        "R": [
            [-0.7168895366514764, 0.421296658925402, 0.5554984405179955],
            [0.22774300755533175, 0.894571974345593, -0.3845440224799754],
            [-0.6589404485606295, -0.14916470056189962, -0.7372566563666925],
        ],
        "u": [3.4085374633396532, -2.0834379505793863, -2.8678350450062315],
        "Omega": [4.808941331728092, 150.0, 1.0283007567183298],
        "Omegadot": [-142.37789125930698, 0.0, 692.7813294400949],
        "lam": [-361.0560047871159, -295.3931730112256, -212.2671718551193],
    },
    0.5: {
        "x": [-0.7024682970565856, -0.021165184701923325, -0.7114002576517344],
        "R": [
            [0.6652792324396802, -0.7024682970565856, 0.25286722704789266],
            [-0.3746628825214055, -0.021165184701923325, 0.9269194999660353],
            [-0.6457795810841509, -0.7114002576517344, -0.27726955488806293],
        ],
        "u": [-4.044981892584064, 1.7742884793570368, 3.94140762274059],
        "Omega": [-0.47105310174524884, 150.0, 5.901083048326457],
        "Omegadot": [-855.2485213745247, 0.0, -74.7215086720073],
        "lam": [523.2812435144015, 404.2061783202587, 357.33617645317906],
    },
    0.7: {
        "x": [-0.7751183578955207, 0.6310350186582063, -0.031405994338480174],
        "R": [
            [0.6012741165266899, -0.7751183578955207, 0.1940643399710517],
            [0.7214695075568089, 0.6310350186582063, 0.2850904328327643],
            [-0.34344022254358064, -0.031405994338480174, 0.93864928331024],
        ],
        "u": [2.7901759882046315, 3.4958925595311237, 1.3791633484774148],
        "Omega": [2.832669873103653, 150.0, -3.7261803183331224],
        "Omegadot": [532.6628068033001, 0.0, 408.50930448473474],
        "lam": [326.10405525372096, -142.3041242127837, -296.76365922056567],
    },
    1.0: {
        "x": [0.17334396409838604, 0.6400885920705688, -0.7484907911335813],
        "R": [
            [0.2292996408036076, 0.17334396409838604, 0.9577961917015508],
            [-0.765340742204681, 0.6400885920705688, 0.06738058045687272],
            [-0.6013943989171537, -0.7484907911335813, 0.27943928238402865],
        ],
        "u": [0.5708253034254873, -4.588728296334952, -3.7919551547100423],
        "Omega": [-0.8220781016827045, 150.0, -5.923291348117337],
        "Omegadot": [858.4563089331821, 0.0, -125.3264233895031],
        "lam": [-517.6007394769013, -396.8431014895542, 404.5749251628845],
    },
}


# kynema, regression test heavy_top: Lie-group generalized-alpha with h = 2e-6; x and the quaternion at t = 1
KYNEMA_X = [0.1733440435722807, 0.6400887012666343, -0.7484906793466106]
KYNEMA_P = np.array([0.7329439942283007, -0.2782856278135421, 0.5318246439927058, -0.3201761370231893])
KYNEMA_R = matrix_of(KYNEMA_P).ravel()


def gyroscopic(v: Any) -> Any:
    """-Omega x J Omega."""
    return -np.cross(v[3:], J @ v[3:])


def on_r3xso3(name: str = "heavy-top", space: spaces.Space | None = None) -> System:
    """x' in the inertial frame; constraint -x + R X = 0 [ACB15]. Any space with the parts x and R will do."""
    return System(
        q=spaces.R3xSO3() if space is None else space,
        mass=MASS,
        force=lambda v: np.concatenate([M * GRAVITY, gyroscopic(v)]),
        constraints=lambda q: {"tip": -q.x + q.R @ X},
        energy=lambda q, v: 0.5 * v @ MASS @ v - M * GRAVITY @ q.x,
        name=name,
    )


def on_se3(name: str = "heavy-top-se3") -> System:
    """Translational velocity in the body frame; G is constant on the constraint -R^T x + X = 0."""
    return System(
        q=spaces.SE3(),
        mass=MASS,
        force=lambda q, v: np.concatenate([M * (q.R.T @ GRAVITY - np.cross(v[3:], v[:3])), gyroscopic(v)]),
        constraints=lambda q: {"tip": -(q.R.T @ q.x) + X},
        energy=lambda q, v: 0.5 * v @ MASS @ v - M * GRAVITY @ q.x,
        name=name,
    )


def _rates(t: float, y: np.ndarray) -> np.ndarray:
    """The rotation about the tip: (quaternion, Omega)."""
    p, omega = y[:4], y[4:]
    torque = np.cross(X, matrix_of(p).T @ (M * GRAVITY))
    omega_dot = np.linalg.solve(ABOUT_TIP, torque - np.cross(omega, ABOUT_TIP @ omega))
    return np.concatenate([quaternion_rate(p, omega), omega_dot])


def _state(t: float, y: np.ndarray) -> dict[str, np.ndarray]:
    R, omega, omega_dot = matrix_of(y[:4]), y[4:], _rates(t, y)[4:]
    u_dot = R @ (np.cross(omega_dot, X) + np.cross(omega, np.cross(omega, X)))
    u = R @ np.cross(omega, X)
    q = np.concatenate([R @ X, R.ravel()])
    return {"q": q, "v": np.concatenate([u, omega]), "lam": M * (u_dot - GRAVITY)}


def _quaternion_state(t: float, y: np.ndarray) -> Mapping[str, np.ndarray]:
    out = _state(t, y)
    return {**out, "q": np.concatenate([out["q"][:3], y[:4] / np.linalg.norm(y[:4])])}


def _body_state(t: float, y: np.ndarray) -> Mapping[str, np.ndarray]:
    out, R = _state(t, y), matrix_of(y[:4])
    return {"q": out["q"], "v": np.concatenate([R.T @ out["v"][:3], y[4:]]), "lam": R.T @ out["lam"]}


def trajectory(t: np.ndarray) -> dict[str, np.ndarray]:
    """The reference at many increasing times (n,) at once, from one integration: q (n, 12), v (n, 6), lam (n, 3).

    Interpolated, to about 1e-11; ``reference`` of the problem ends an integration at every time instead.
    """
    y0 = np.concatenate([[1.0, 0.0, 0.0, 0.0], OMEGA0])
    run = solve_ivp(_rates, (0.0, t[-1]), y0, method="DOP853", rtol=RTOL, atol=ATOL, t_eval=t)
    rows = [_state(s, y) for s, y in zip(t, run.y.T, strict=True)]
    return {name: np.array([row[name] for row in rows]) for name in ("q", "v", "lam")}


def parts(q: np.ndarray, v: np.ndarray, lam: np.ndarray) -> dict[str, np.ndarray]:
    """x, R, u, Omega and lam of states (n, ...)."""
    return {"x": q[:, :3], "R": q[:, 3:], "u": v[:, :3], "Omega": v[:, 3:], "lam": lam}


def _problem(name: str, system: System, where: str, state: Any, attitude: np.ndarray = KYNEMA_R) -> Problem:
    y0 = np.concatenate([[1.0, 0.0, 0.0, 0.0], OMEGA0])
    start = state(0.0, y0)
    return Problem(
        name=name,
        description=f"heavy top with its tip held by a constraint, 150 rad/s, on {where}",
        source="Arnold, Cardona & Bruels 2015; reference by the rotation about the tip, DOP853",
        system=system,
        q0=start["q"],
        v0=start["v"],
        t_span=(0.0, 1.0),
        reference=minimal_coordinates(_rates, y0, 0.0, state),
        reference_digits=11,
        published=Published(
            t=1.0,
            values={"q": [*KYNEMA_X, *attitude]},
            within={"q": [1.2e-7] * 3 + [4e-7] * len(attitude)},  # an error of 1e-7 in the quaternion
            origin="kynema, regression test heavy_top: generalized-alpha, h = 2e-6",
        ),
    )


@register("heavy-top")
def heavy_top() -> Problem:
    return _problem("heavy-top", on_r3xso3(), "R^3 x SO(3)", _state)


@register("heavy-top-se3")
def heavy_top_se3() -> Problem:
    return _problem("heavy-top-se3", on_se3(), "SE(3)", _body_state)


@register("heavy-top-quaternion")
def heavy_top_quaternion() -> Problem:
    system = on_r3xso3("heavy-top-quaternion", spaces.Euclidean(3) * spaces.UnitQuaternions())
    return _problem("heavy-top-quaternion", system, "R^3 x unit quaternions", _quaternion_state, KYNEMA_P)
