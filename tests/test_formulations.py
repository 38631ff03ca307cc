"""Formulations: orders of q, v and multipliers, the constraint levels they promise, and what they refuse.

Exact solutions: the pendulum in elliptic functions, a pendulum with a moving pivot, Wunderlich's particle, the knife
edge, and manufactured Hessenberg systems in which the multipliers do not act along the constraint gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest

import dalembert as da
from dalembert.formulations import Formulation
from dalembert.status import ModelError, OptionError

SLACK = 0.15
HELD = 1e-12  # constraints: Newton's method ends at 0.02 (1e-12 + 1e-11 |x|) with fixed steps
POINTS = 200  # at which a run is compared with the exact solution: that of the moving pivot takes its time

VARIANTS: dict[str, Formulation] = {
    "baumgarte-1": da.Baumgarte(1.0),
    "baumgarte-10": da.Baumgarte(10.0),
    "baumgarte-3-5": da.Baumgarte(alpha=3.0, beta=5.0),
    "index-1": da.Index1(),
    "index-2": da.Index2(),
    "index-2-5": da.Index2(gamma=5.0),
    "index-3": da.Index3(),
    "minimal": da.MinimalExtension(),
    "minimal-full": da.MinimalExtension(variant="full"),
    "stabilized-G": da.StabilizedIndex2(D="G^T"),
    "stabilized-M": da.StabilizedIndex2(D="M^-1 G^T"),
    "Pa-G": da.ProjectedInvariants(levels=1, D="G^T"),
    "Pa-M": da.ProjectedInvariants(levels=1, D="M^-1 G^T"),
    "Pb-G": da.ProjectedInvariants(levels=2, D="G^T"),
    "Pb-M": da.ProjectedInvariants(levels=2, D="M^-1 G^T"),
    "Pc-G": da.ProjectedInvariants(levels=2, D="G^T", balanced=True),
    "Pc-M": da.ProjectedInvariants(levels=2, D="M^-1 G^T", balanced=True),
    "state-space": da.StateSpace(),
    "underlying-ode": da.UnderlyingODE(),
    "overdetermined": da.Overdetermined(),
    "overdetermined-mass": da.Overdetermined(weight="mass"),
}
# problem -> order -> end of the run, numbers of steps: fine enough for the asymptotics, clear of rounding
STEPS: dict[str, dict[int, tuple[float, tuple[int, ...]]]] = {
    "pendulum": {
        1: (2.2, (4000, 8000, 16000)), 2: (2.2, (1000, 2000, 4000)), 3: (2.2, (600, 1200, 2400)),
        4: (2.2, (600, 1200, 2400)), 5: (2.2, (300, 600, 1200)),
    },
    "moving-pivot": {
        1: (2.0, (4000, 8000, 16000)), 2: (2.0, (800, 1600, 3200)), 3: (2.0, (300, 600, 1200)),
        4: (2.0, (200, 400, 800)), 5: (2.0, (150, 300, 600)),
    },
    "particle-8.1.1": {
        1: (4.0, (2000, 4000, 8000)), 2: (4.0, (400, 800, 1600)), 3: (4.0, (160, 320, 640)), 4: (2.0, (40, 56, 80)),
        5: (6.5, (300, 364, 440)),
    },
    "knife-edge": {
        1: (2.0, (1000, 2000, 4000)), 2: (2.0, (250, 500, 1000)), 3: (2.0, (100, 200, 400)), 4: (2.0, (80, 160, 320)),
        5: (2.0, (120, 180, 240)),
    },
}  # fmt: skip
MANUFACTURED = {1: (2000, 4000, 8000), 2: (400, 800, 1600), 3: (160, 320, 640), 4: (120, 180, 240), 5: (56, 70, 84)}
# v of the minimal extension comes within 0.15 of order 5 a little later
MANUFACTURED_OF = {(variant, 2, 5): (84, 100, 120) for variant in ("minimal", "minimal-full")}


@cache
def evaluated(reference: Callable[..., Any], times: tuple[float, ...]) -> dict[str, Any]:
    """The exact solution on a grid, computed once for all formulations."""
    return dict(reference(np.array(times)))


def measure(
    system: da.System, reference: Callable[..., Any], k: int, formulation: Formulation, end: float, n: int, q0: Any,
    v0: Any = None, **options: Any,
) -> tuple[dict[str, float], da.Solution]:  # fmt: skip
    """Largest errors over a run of n fixed steps, and the run.

    The velocities at which the index-3 form starts are exact, those that it computes are difference quotients of
    positions. Its multipliers have their order once all k + 1 velocities of a step are of the second kind.
    """
    sol = da.solve(system, (0, end), q0=q0, v0=v0, method=da.BDF(k), formulation=formulation, h=end / n, **options)
    assert sol.success, sol.message
    chosen = np.unique(np.linspace(0, n, POINTS + 1).round().astype(int))
    exact = evaluated(reference, tuple(sol.t[chosen]))
    late = chosen >= (2 * k if formulation.name == "index-3" else 0)
    errors = {x: np.abs(getattr(sol, x)[chosen] - exact[x]) for x in exact}
    return {x: float((e[late] if x == "lam" else e).max()) for x, e in errors.items()}, sol


def slopes(counts: tuple[int, ...], errors: list[dict[str, float]]) -> dict[str, float]:
    x = -np.log(counts)
    return {name: float(np.polyfit(x, np.log([e[name] for e in errors]), 1)[0]) for name in errors[0]}


def promised(formulation: Formulation) -> set[str]:
    """Levels that hold at the end of a step, projection included."""
    return set(formulation.satisfies) | ({"position", "velocity"} if formulation.projects else set())


def check_levels(formulation: Formulation, sol: da.Solution) -> None:
    levels = promised(formulation)
    size = max(1.0, float(np.abs(sol.v).max()))
    for level in levels - {"acceleration"}:
        assert np.abs(getattr(sol.drift, level)).max(initial=0.0) <= HELD * size, level
    if levels & {"position", "velocity"}:  # every form that imposes g or g' imposes k
        assert np.abs(sol.drift.nonholonomic).max(initial=0.0) <= HELD * size


def check_order(name: str, k: int, variant: str, exact: tuple[str, ...]) -> None:
    """``exact``: the parts whose slope is to be k and not more by chance."""
    problem, formulation = da.problems()[name], VARIANTS[variant]
    end, counts = STEPS[name][k]
    errors = []
    for n in counts:
        assert problem.reference is not None
        found, sol = measure(problem.system, problem.reference, k, formulation, end, n, problem.q0, problem.v0)
        check_levels(formulation, sol)
        errors.append(found)
    observed = slopes(counts, errors)
    print(name, variant, k, {x: round(s, 3) for x, s in observed.items()})
    assert all(abs(observed[x] - k) < SLACK for x in exact), observed
    assert all(s > k - SLACK for s in observed.values()), observed


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", ["pendulum", "moving-pivot", "particle-8.1.1"])
def test_order_and_levels(name: str, variant: str, k: int) -> None:
    check_order(name, k, variant, ("q", "v", "lam"))


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("variant", VARIANTS)
def test_order_and_levels_with_a_velocity_constraint(variant: str, k: int) -> None:
    """The multiplier of the index-2 forms gains an order here for even k, by symmetry."""
    check_order("knife-edge", k, variant, ("q", "v"))


def test_every_formulation_of_the_registry_is_tested() -> None:
    tested = {f.name for f in VARIANTS.values()} | {"essential-ode"}
    assert tested == set(da.formulations())


# ---------------------------------------------------------------------- Hessenberg systems with B != C^T
def exact_curve(t: Any) -> dict[str, Any]:
    """x, x', x'', y of the manufactured systems; t a number, an array or a symbol."""
    s, c = np.sin(t), np.cos(t)
    return {
        "x": [s, c + 0.5 * s * c, 1 + 0.3 * t],
        "v": [c, -s + 0.5 * (c * c - s * s), 0.3 + 0 * t],
        "a": [-s, -c - 2 * s * c, 0 * t],
        "y": [c * c + 0.5],
    }


def right_side(t: Any, x: Any, y: Any) -> list[Any]:
    """Nonlinear in x, linear in y, which acts along B(t, x) = (1 + x1^2 / 4, t x2 / 2, 1)."""
    return [
        x[1] * x[2] + (1 + x[1] ** 2 / 4) * y[0],
        -np.sin(x[0]) * x[1] + t * x[2] / 2 * y[0],
        x[0] ** 2 - x[2] + y[0],
    ]


def constraint(t: Any, x: Any) -> Any:
    return (2 + np.sin(2 * t)) * x[0] + x[0] ** 3 / 3 + x[1] * x[2] / 4 + x[2] ** 2


@cache
def manufactured(order: int) -> tuple[da.System, Callable[..., Any]]:
    def forced(t: Any, x: Any, y: Any, derivative: str) -> list[Any]:
        exact = exact_curve(t)
        at = right_side(t, exact["x"], exact["y"])
        return [f + d - e for f, d, e in zip(right_side(t, x, y), exact[derivative], at, strict=True)]

    def g(t: Any, x: Any) -> list[Any]:
        return [constraint(t, x) - constraint(t, exact_curve(t)["x"])]

    if order == 1:
        system = da.Hessenberg(1, 3, f=lambda t, x, y: forced(t, x, y, "v"), g=g)
    else:

        def f(t: Any, x: Any, v: Any, y: Any) -> list[Any]:
            exact = exact_curve(t)["v"]
            damping = [0.3 * a * b - 0.3 * c * d for a, b, c, d in zip(x, v, exact_curve(t)["x"], exact, strict=True)]
            return [a - b for a, b in zip(forced(t, x, y, "a"), damping, strict=True)]

        system = da.Hessenberg(2, 3, f=f, g=g)

    def reference(t: Any) -> dict[str, Any]:
        exact = {key: np.stack(np.broadcast_arrays(*x), axis=-1) for key, x in exact_curve(np.asarray(t)).items()}
        if order == 1:
            return {"v": exact["x"], "mu": exact["y"]}
        return {"q": exact["x"], "v": exact["v"], "lam": exact["y"]}

    return system, reference


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("order", [1, 2])
def test_order_on_hessenberg_systems(order: int, variant: str, k: int) -> None:
    formulation = VARIANTS[variant]
    if order == 1 and getattr(formulation, "levels", 1) == 2:
        pytest.skip("refused: one level of constraints")
    system, reference = manufactured(order)
    start = reference(0.0)
    q0, v0 = (start["v"], None) if order == 1 else (start["q"], start["v"])
    errors = []
    counts = MANUFACTURED_OF.get((variant, order, k), MANUFACTURED[k])
    for n in counts:
        found, sol = measure(system, reference, k, formulation, 1.5, n, q0, v0)
        check_levels(formulation, sol)
        errors.append(found)
    observed = slopes(counts, errors)
    print("hessenberg", order, variant, k, {x: round(s, 3) for x, s in observed.items()}, errors[-1])
    assert all(abs(s - k) < SLACK for s in observed.values()), (observed, errors)


# ---------------------------------------------------------------------- the essential underlying ODE
def essential(t: Any, p: Any) -> list[list[Any]]:
    """R of Ascher and Petzold's examples 2 and 3."""
    return [[(1 - p.nu) / p.nu, 2 - t]]


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("example", [2, 3])
@pytest.mark.parametrize("nu", [1.0, 3.0])
def test_essential_ode_has_the_order_of_the_method(example: int, k: int, nu: float) -> None:
    problem = da.problems()[f"ascher-petzold-{example}"]
    counts = {1: (800, 1600, 3200), 2: (200, 400, 800), 3: (100, 200, 400), 4: (80, 120, 160), 5: (60, 80, 120)}[k]
    errors = []
    for n in counts:
        assert problem.reference is not None
        found, sol = measure(
            problem.system, problem.reference, k, da.EssentialODE(essential), 1.0, n, problem.q0, problem.v0,
            parameters={"nu": nu},
        )  # fmt: skip
        check_levels(da.EssentialODE(essential), sol)
        R = np.array([essential(t, type("p", (), {"nu": nu}))[0] for t in sol.t])
        x = sol.v if example == 2 else sol.q
        assert sol.extra["u"][:, 0] == pytest.approx((R * x).sum(axis=1), rel=1e-12)
        errors.append(found)
    observed = slopes(counts, errors)
    print("essential", example, nu, k, {x: round(s, 3) for x, s in observed.items()})
    assert all(abs(s - k) < SLACK for s in observed.values()), (observed, errors)


@pytest.mark.parametrize("example", [2, 3])
@pytest.mark.parametrize("nu", [1.0, 10.0])
def test_essential_ode_agrees_with_the_other_forms(example: int, nu: float) -> None:
    problem = da.problems()[f"ascher-petzold-{example}"]
    others = [da.ProjectedInvariants(levels=1), da.StateSpace(), da.Overdetermined()]
    for formulation in (da.EssentialODE(essential), *others):
        sol = da.solve(
            problem.system, (0, 1), q0=problem.q0, v0=problem.v0, formulation=formulation, rtol=1e-9, atol=1e-11,
            parameters={"nu": nu},
        )  # fmt: skip
        assert sol.success, sol.message
        assert problem.reference is not None
        exact = problem.reference(sol.t)
        assert max(np.abs(getattr(sol, x) - exact[x]).max() for x in exact if x not in ("lam", "mu")) < 3e-7


# ---------------------------------------------------------------------- unknowns that a formulation adds
@pytest.mark.parametrize("formulation", [da.StateSpace(), da.ProjectedInvariants()], ids=lambda f: f.name)
def test_added_accelerations_start_with_their_values(pendulum: Any, formulation: Formulation) -> None:
    sol = da.solve(pendulum.system, (0, 0.1), q0=pendulum.q0, v0=pendulum.v0, formulation=formulation)
    assert sol.extra["acc"][0] == pytest.approx(sol.a[0], abs=1e-12)


def test_stabilising_multipliers_vanish_with_the_step(pendulum: Any) -> None:
    """eta and tau are zero on the exact solution: they are of the size of the local error per unit step."""
    formulations = (da.StabilizedIndex2(), da.ProjectedInvariants(), da.ProjectedInvariants(balanced=True))
    for formulation in formulations:
        largest = []
        for n in (200, 400):
            sol = da.solve(
                pendulum.system, (0, 1), q0=pendulum.q0, v0=pendulum.v0, formulation=formulation, method=da.BDF(2),
                h=1 / n,
            )  # fmt: skip
            largest.append([np.abs(x[5:]).max() for name, x in sol.extra.items() if name in ("eta", "tau")])
        assert np.log2(np.array(largest[0]) / largest[1]) == pytest.approx(2, abs=0.3)


# ---------------------------------------------------------------------- refusals
Refuse = Callable[..., None]


@pytest.fixture(scope="module")
def refuse(pendulum_with: Any) -> Refuse:
    """Check that `solve` refuses a formulation with a message that contains the given words."""
    systems = {"pendulum": pendulum_with()}

    def attempt(formulation: Any, *words: str, system: da.System | None = None, **options: Any) -> None:
        given = {"q0": [1, 0], "v0": [0, 0], **options}
        with pytest.raises(OptionError) as caught:
            da.solve(system or systems["pendulum"], (0, 0.01), formulation=formulation, **given)
        assert all(word in str(caught.value) for word in words), str(caught.value)

    return attempt


def refused(build: Callable[[], Any], *words: str) -> None:
    with pytest.raises(OptionError) as caught:
        build()
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize("name", ["gamma", "alpha", "beta"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), "1", True])
def test_rates_of_baumgarte(name: str, value: Any) -> None:
    refused(lambda: da.Baumgarte(**{name: value}), f"Baumgarte({name}={value!r})", ">= 0")


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), "1", None])
def test_rate_of_index_2(value: Any) -> None:
    refused(lambda: da.Index2(gamma=value), f"Index2(gamma={value!r})", ">= 0")


def test_levels_of_projected_invariants() -> None:
    refused(lambda: da.ProjectedInvariants(levels=3), "levels=3", "2 levels", "give 1 or 2")
    refused(lambda: da.ProjectedInvariants(levels=0), "levels=0", "give 1 or 2")
    refused(lambda: da.ProjectedInvariants(levels=1, balanced=True), "balanced=True", "needs levels=2")


def test_one_level_in_a_system_of_order_1(refuse: Refuse) -> None:
    system, reference = manufactured(1)
    for formulation in (da.ProjectedInvariants(levels=2), "projected-invariants"):
        refuse(formulation, "order 1", "use levels=1", system=system, q0=reference(0.0)["v"], v0=None)


@pytest.mark.parametrize("owner", [da.StabilizedIndex2, da.ProjectedInvariants])
@pytest.mark.parametrize("D", ["M^-1", "g", [["a"], ["b"]], {}, [[np.nan], [0.0]], np.zeros((2, 1, 1, 1))], ids=str)
def test_directions_that_are_none(owner: type[Formulation], D: Any) -> None:
    refused(lambda: owner(D=D), f"{owner.__name__}(D=", "matrix")  # type: ignore[call-arg]


@pytest.mark.parametrize("owner", [da.StabilizedIndex2, da.ProjectedInvariants])
@pytest.mark.parametrize("D", [[[1.0, 0.0]], [[1.0], [0.0], [0.0]], np.eye(2)], ids=["row", "long", "square"])
def test_direction_of_wrong_shape(owner: type[Formulation], D: Any, refuse: Refuse) -> None:
    refuse(owner(D=D), owner.__name__, str(np.shape(D)), "expected (2, 1)", "velocity")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "formulation",
    [
        da.StabilizedIndex2(D=[0, 1]), da.ProjectedInvariants(D=[0, 1]), da.ProjectedInvariants(levels=1, D=[0, 1]),
        da.ProjectedInvariants(D=("G^T", [[0], [1]])), da.ProjectedInvariants(D=([[1], [0]], [[0], [1]])),
        da.StabilizedIndex2(D=[0, 0]),
    ],
    ids=lambda f: f.describe(),
)  # fmt: skip
def test_direction_along_the_constraint(formulation: Formulation, refuse: Refuse) -> None:
    """At (1, 0) the rod's gradient is (2, 0): (0, 1) is tangent to the circle."""
    refuse(formulation, type(formulation).__name__, "G D is singular", "'rod'", "D='G^T'")


def test_direction_of_a_level_that_is_not_imposed_is_not_checked(pendulum_with: Any) -> None:
    form = da.ProjectedInvariants(levels=1, D=([[1], [0]], [[0], [1]]))
    assert da.solve(pendulum_with(), (0, 0.01), q0=[1, 0], v0=[0, 0], formulation=form).success


def test_pair_of_directions(pendulum: Any) -> None:
    form = da.ProjectedInvariants(D=([[1], [-2]], [[1], [-1]]))
    sol = da.solve(pendulum.system, (0, 0.2), q0=pendulum.q0, v0=pendulum.v0, formulation=form, rtol=1e-9, atol=1e-11)
    assert sol.success, sol.message
    assert np.abs(sol.q - pendulum.reference(sol.t)["q"]).max() < 1e-7
    assert form.describe() == "projected-invariants (Pb, D = user)"


def test_direction_along_a_velocity_constraint(refuse: Refuse) -> None:
    problem = da.problems()["knife-edge"]  # at the start its gradient is (0, -1, 0)
    refuse(
        da.ProjectedInvariants(D=[1, 0, 0]), "G D is singular", "'edge'", system=problem.system, q0=problem.q0,
        v0=problem.v0,
    )  # fmt: skip


def test_inertial_direction_without_inertia(refuse: Refuse) -> None:
    system = da.System(q=["x", "y"], mass=[1.0, 0.0], force=[0, -1], constraints=lambda q: [q[1] - q[0] ** 2])
    for owner in (da.StabilizedIndex2, da.ProjectedInvariants):
        words = (owner.__name__, "singular", "D='G^T'")
        refuse(owner(D="M^-1 G^T"), *words, system=system, q0=[0.5, 0.25], v0=[0, 0])


@pytest.mark.parametrize("R", [[[np.nan, 1.0]], "x", [["a", "b"]], np.ones((2, 2, 2)), [[1, 2], [3]]], ids=str)
def test_local_coordinates_that_are_none(R: Any) -> None:
    refused(lambda: da.StateSpace(R=R), "StateSpace(R=...)", "finite matrix", "degree of freedom")


def test_local_coordinates_of_wrong_shape_or_singular(refuse: Refuse) -> None:
    refuse(da.StateSpace(R=np.eye(2)), "StateSpace(R=...)", "(2, 2)", "expected (1, 2)")
    refuse(da.StateSpace(R=[[1, 0, 0]]), "(1, 3)", "expected (1, 2)")
    for R in ([[1, 0]], [[0, 0]]):
        refuse(da.StateSpace(R=R), "[R; G] is singular at the start", "leave R out")


def test_local_coordinates_for_two_kinds_of_constraints(refuse: Refuse) -> None:
    system = da.System(
        q=["x", "y", "z"],
        mass=[1.0, 1.0, 1.0],
        constraints=lambda q: [q[2]],
        velocity_constraints=lambda q, v: [v[1] - q[2] * v[0]],
    )
    form = da.StateSpace(R=[[1, 0, 0]])
    refuse(form, "StateSpace(R=...)", "both kinds", "leave R out", system=system, q0=[0, 0, 0], v0=[1, 0, 0])


@pytest.mark.parametrize("R", [None, [[1.0, 0.0]]], ids=["none", "matrix"])
def test_essential_ode_without_a_function(R: Any, refuse: Refuse) -> None:
    refuse(da.EssentialODE(R=R), "EssentialODE(R=lambda t, p: ...)", "StateSpace()")
    if R is None:
        refuse("essential-ode", "EssentialODE(R=lambda t, p: ...)", "StateSpace()")


@pytest.mark.parametrize(
    ("R", "words"),
    [
        (lambda t: [[1.0, 0.0]], ("R B is not zero at the start", "row 0", "StateSpace()")),
        (lambda t: [[1e-6, 1.0]], ("R B is not zero at the start", "StateSpace()")),
        (lambda t: [[0.0, 0.0]], ("[R; G] is singular at the start",)),
        (lambda t: [[0.0, 1 / t]], ("not finite at the start", "smooth")),
        (lambda t: [[1.0, 0.0], [0.0, 1.0]], ("shape (2, 2)", "expected (1, 2)")),
        (lambda q: [[q[1], q[0]]], ("R asks for 'q'", "t and p")),
    ],
    ids=["across", "nearly", "zero", "infinite", "shape", "argument"],
)
def test_essential_ode_with_a_wrong_function(R: Any, words: tuple[str, ...], refuse: Refuse) -> None:
    refuse(da.EssentialODE(R=R), "EssentialODE(R=...)", *words)


def test_essential_ode_for_velocity_constraints_besides_positions(refuse: Refuse) -> None:
    problem = da.problems()["knife-edge"]
    form = da.EssentialODE(R=lambda t: np.eye(2, 3))
    refuse(form, "EssentialODE", "StateSpace()", system=problem.system, q0=problem.q0, v0=problem.v0)


def test_underlying_ode_with_forces_nonlinear_in_the_multipliers(refuse: Refuse, pendulum_with: Any) -> None:
    system = pendulum_with(force=lambda v, lam: -0.1 * np.sqrt(1 + lam[0] ** 2) * v + np.array([0, -9.81]))
    refuse(da.UnderlyingODE(), "nonlinear in the multipliers", "index-1", system=system)
    assert da.solve(system, (0, 0.1), q0=[1, 0], v0=[0, 0], formulation="index-1").success


@pytest.mark.parametrize("weight", ["inertia", [[1, 2], [3, 4]], [[1, 0], [0, -1]], [["a"]]], ids=str)
def test_weight_of_the_overdetermined_form(weight: Any) -> None:
    refused(lambda: da.Overdetermined(weight=weight), "Overdetermined(weight=")


def test_weights_of_the_overdetermined_form(pendulum: Any) -> None:
    """Matrices are accepted as arrays and lists; the identity is the default."""
    runs = [
        da.solve(
            pendulum.system, (0, 1), q0=pendulum.q0, v0=pendulum.v0, formulation=da.Overdetermined(weight=weight),
            method=da.BDF(2), h=0.01,
        )
        for weight in (None, np.eye(2), [[1, 0], [0, 1]], [1, 1])
    ]  # fmt: skip
    assert all(np.abs(sol.q - runs[0].q).max() < 1e-13 for sol in runs)


def test_weight_of_wrong_shape(refuse: Refuse) -> None:
    refuse(da.Overdetermined(weight=np.eye(3)), "(3, 3)", "2 velocities")


def test_unknown_name_lists_those_that_exist(refuse: Refuse) -> None:
    refuse("state space", "'state space'", *da.formulations())


def test_method_that_does_not_take_a_formulation(refuse: Refuse) -> None:
    class Narrow(da.BackwardEuler):
        takes: ClassVar[Any] = frozenset({"index-1", "index-2"})

    refuse("index-3", "'backward-euler'", "'index-3'", "it takes index-1, index-2", method=Narrow())


def test_multipliers_that_do_not_act_across_the_constraint() -> None:
    """C B = 0: no formulation helps, the model is refused."""
    system = da.Hessenberg(2, 2, f=lambda x, y: [-x[0], y[0]], g=lambda x: [x[0] - 1.0])
    with pytest.raises(ModelError, match="no unique solution"):
        da.solve(system, (0, 1), q0=[1, 0], v0=[0, 0])
