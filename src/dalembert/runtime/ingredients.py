"""What the functions of a model are made of, as far as methods depend on it; found out once for a system."""

from __future__ import annotations

import casadi as ca

from dalembert.compiler.lanes import by_lane
from dalembert.compiler.spec import Stream
from dalembert.model.system import System

FEW = 0.05  # part of the instructions of a model that may be functions evaluated lane by lane
# operations with kinks or jumps
KINKED = frozenset({
    ca.OP_FABS, ca.OP_SIGN, ca.OP_FLOOR, ca.OP_CEIL, ca.OP_COPYSIGN, ca.OP_FMOD, ca.OP_REMAINDER, ca.OP_FMIN,
    ca.OP_FMAX, ca.OP_LT, ca.OP_LE, ca.OP_EQ, ca.OP_NE, ca.OP_AND, ca.OP_OR, ca.OP_NOT, ca.OP_IF_ELSE_ZERO,
})  # fmt: skip
# with a kink where their argument is zero, as that of the length of a velocity is when the motion turns back
KINKED_AT_ZERO = frozenset({ca.OP_SQRT, ca.OP_POW, ca.OP_CONSTPOW, ca.OP_HYPOT, ca.OP_ATAN2})


def lane_by_lane(system: System) -> bool:
    """True if so much of a model is functions without a vector form that iterating all stages at once does not pay."""
    return _known(system)[0]


def kinked(system: System) -> bool:
    """True if the functions of a model may have kinks or jumps."""
    return _known(system)[1]


def _known(system: System) -> tuple[bool, bool]:
    cache = system.__dict__
    if "_ingredients" not in cache:
        x = system.symbols
        symbols = [x.t, x.q, x.v, x.a, x.lam, x.mu, x.r, x.w, x.s, x.p]
        outputs = [system.mass, system.force, system.G, *([system.dynamics] if system.nr else [])]
        stream = Stream.of(ca.Function("model", symbols, outputs, {"allow_free": True}))
        cache["_ingredients"] = sum(by_lane(i.op) for i in stream) > FEW * len(stream), _kinks(stream)
    known: tuple[bool, bool] = cache["_ingredients"]
    return known


def _kinks(stream: Stream) -> bool:
    moving: set[int] = set()  # slots whose values depend on velocities
    for op, inputs, output, _ in stream:
        if op == ca.OP_OUTPUT:
            continue
        depends = inputs[0] == 2 if op == ca.OP_INPUT else op != ca.OP_CONST and any(i in moving for i in inputs)
        if op in KINKED or (op in KINKED_AT_ZERO and depends):
            return True
        (moving.add if depends else moving.discard)(output)
    return False
