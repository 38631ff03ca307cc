"""Exudyn's generalized-alpha method on chains of mass points and on the heavy top; fixed steps, index 3.

J. Gerstmayr, Exudyn: a C++-based Python package for flexible multibody systems, Multibody Syst. Dyn. 60 (2024) 533-561.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

try:
    import exudyn as exu
    import exudyn.itemInterface as items
except ImportError:  # pragma: no cover
    exu = None

NAME = "Exudyn"


def available() -> bool:
    """True if the package is installed."""
    return exu is not None


def chain(links: int) -> tuple[Any, Any]:
    """A chain of ``links`` rods of length 1/links with point masses 1/links, horizontal at first."""
    container = exu.SystemContainer()
    mbs = container.AddSystem()
    ground = mbs.AddNode(items.NodePointGround(referenceCoordinates=[0, 0, 0]))
    last = mbs.AddMarker(items.MarkerNodePosition(nodeNumber=ground))
    length, mass = 1.0 / links, 1.0 / links
    for i in range(links):
        node = mbs.AddNode(items.NodePoint2D(referenceCoordinates=[(i + 1) * length, 0.0]))
        mbs.AddObject(items.ObjectMassPoint2D(physicsMass=mass, nodeNumber=node))
        marker = mbs.AddMarker(items.MarkerNodePosition(nodeNumber=node))
        mbs.AddLoad(items.LoadForceVector(markerNumber=marker, loadVector=[0.0, -9.81 * mass, 0.0]))
        mbs.AddObject(items.ObjectConnectorDistance(markerNumbers=[last, marker], distance=length))
        last = marker
    mbs.Assemble()
    return container, mbs  # the container owns the system


def heavy_top(mass: float, inertia: np.ndarray, X: np.ndarray, omega: np.ndarray) -> tuple[Any, Any]:
    """The top of Arnold, Cardona and Bruels on a spherical joint, its attitude in Euler parameters."""
    container = exu.SystemContainer()
    mbs = container.AddSystem()
    velocity = -np.cross(X, omega)
    # at R = I the Euler parameters (1, 0, 0, 0) change by (0, omega / 2)
    node = mbs.AddNode(
        items.NodeRigidBodyEP(referenceCoordinates=[*X, 1, 0, 0, 0], initialVelocities=[*velocity, 0.0, *(0.5 * omega)])
    )
    body = mbs.AddObject(
        items.ObjectRigidBody(physicsMass=mass, physicsInertia=[*np.diag(inertia), 0, 0, 0], nodeNumber=node)
    )
    ground = mbs.AddObject(items.ObjectGround())
    a = mbs.AddMarker(items.MarkerBodyRigid(bodyNumber=ground, localPosition=[0, 0, 0]))
    b = mbs.AddMarker(items.MarkerBodyRigid(bodyNumber=body, localPosition=list(-X)))
    mbs.AddObject(items.ObjectJointSpherical(markerNumbers=[a, b]))
    center = mbs.AddMarker(items.MarkerBodyMass(bodyNumber=body))
    mbs.AddLoad(items.LoadMassProportional(markerNumber=center, loadVector=[0, 0, -9.81]))
    mbs.Assemble()
    return container, mbs  # the container owns the system


def run(model: tuple[Any, Any], end: float, steps: int, rho: float = 0.9) -> tuple[float, np.ndarray]:
    """Seconds and the coordinates at the end; nothing is written or displayed."""
    seconds, q, _ = run_with_velocities(model, end, steps, rho)
    return seconds, q


def top_state(q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(x, R) and (x', Omega) of `heavy_top` from displacements and changes of Euler parameters."""
    x, p = q[:3] + np.array([0.0, 1.0, 0.0]), q[3:] + np.array([1.0, 0.0, 0.0, 0.0])
    p0, (p1, p2, p3) = p[0], p[1:]
    skew = np.array([[0, -p3, p2], [p3, 0, -p1], [-p2, p1, 0]])
    R = np.eye(3) + 2 * p0 * skew + 2 * skew @ skew
    omega = 2 * (p0 * v[4:] - v[3] * p[1:] - np.cross(p[1:], v[4:]))  # body frame
    return np.concatenate([x, R.ravel()]), np.concatenate([v[:3], omega])


def run_with_velocities(
    model: tuple[Any, Any], end: float, steps: int, rho: float = 0.9
) -> tuple[float, np.ndarray, np.ndarray]:
    """The same, with velocities."""
    _, mbs = model
    settings = exu.SimulationSettings()
    settings.timeIntegration.numberOfSteps = steps
    settings.timeIntegration.endTime = end
    settings.timeIntegration.generalizedAlpha.spectralRadius = rho
    settings.timeIntegration.newton.useModifiedNewton = True
    settings.timeIntegration.verboseMode = 0
    if mbs.systemData.ODE2Size() > 50:
        settings.linearSolverType = exu.LinearSolverType.EigenSparse
    settings.solutionSettings.writeSolutionToFile = False
    settings.solutionSettings.sensorsWriteFileHeader = False
    settings.displayStatistics = False
    settings.displayComputationTime = False
    begin = time.process_time()
    mbs.SolveDynamic(settings, solverType=exu.DynamicSolverType.GeneralizedAlpha)
    seconds = time.process_time() - begin
    data = mbs.systemData
    return seconds, np.array(data.GetODE2Coordinates()), np.array(data.GetODE2Coordinates_t())
