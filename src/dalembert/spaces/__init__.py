"""Configuration spaces: what a position is, and how a velocity moves it.

Every space is a Lie group with elements q stored as ``nq`` numbers and left-trivialised velocities v of ``nv`` numbers,
q' = q v~. Operations take numbers (..., n), any number of leading axes, or symbols, and give the same back.

====================  ====================================================  ====  =====================================
space                 stored numbers                                        nv    velocity
====================  ====================================================  ====  =====================================
``Euclidean(n)``      x                                                     n     x'
``Circle()``          the angle, not wrapped (turns are counted)            1     rate of the angle
``SO2()``             z = (cos, sin)                                        1     rate of the angle
``SO3()``             rotation matrix R, row by row (9)                     3     angular velocity in the body frame
``UnitQuaternions()`` p = (p0, p1, p2, p3), scalar first                    3     angular velocity in the body frame
``SE2()``             x (2), z = (cos, sin)                                 3     (u, omega), u = R^T x'
``SE3()``             x (3), R row by row (9)                               6     (u, Omega), u = R^T x', body frame
``R3xSO3()``          x (3), R row by row (9)                               6     (x', Omega), x' in the inertial frame
``A * B``             those of A, then those of B                           sum   those of A, then those of B
====================  ====================================================  ====  =====================================
"""

from dalembert.spaces.circle import Circle
from dalembert.spaces.euclidean import Euclidean, as_names, as_space
from dalembert.spaces.group import Element, Group
from dalembert.spaces.product import Product, R3xSO3
from dalembert.spaces.quaternions import UnitQuaternions
from dalembert.spaces.se2 import SE2
from dalembert.spaces.se3 import SE3
from dalembert.spaces.so2 import SO2
from dalembert.spaces.so3 import SO3
from dalembert.spaces.space import Check, Space

__all__ = [
    "SE2",
    "SE3",
    "SO2",
    "SO3",
    "Check",
    "Circle",
    "Element",
    "Euclidean",
    "Group",
    "Product",
    "R3xSO3",
    "Space",
    "UnitQuaternions",
    "as_names",
    "as_space",
]
