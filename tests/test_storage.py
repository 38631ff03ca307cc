"""Files: everything survives, and what is wrong is said clearly."""

import os
import sys
from dataclasses import fields, replace

import h5py
import numpy as np
import pytest
import xarray

import dalembert as da
from dalembert.solution import PARTS, Solution, State
from dalembert.status import Stats, Status
from dalembert.storage import StorageError


def same(x, y):
    """Equal in type, shape and every bit (NaN included)."""
    if isinstance(x, np.ndarray):
        return isinstance(y, np.ndarray) and x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
    if isinstance(x, State):
        return all(same(getattr(x, f.name), getattr(y, f.name)) for f in fields(State))
    if isinstance(x, dict):
        return list(x) == list(y) and all(same(x[key], y[key]) for key in x)
    if isinstance(x, (list, tuple)):
        return type(x) is type(y) and len(x) == len(y) and all(map(same, x, y))
    return x == y


def check_round_trip(sol, path):
    """Every field of a solution that is not a function, so a new one cannot be forgotten."""
    sol.save(path)
    back = da.load(path)
    for f in fields(Solution):
        if f.name not in ("evaluator", "drift_of", "energy_of", "context", "fine"):
            assert same(getattr(sol, f.name), getattr(back, f.name)), f.name
    if sol.drift_of is not None:
        for level in ("position", "velocity", "nonholonomic", "invariants"):
            assert same(np.ascontiguousarray(getattr(sol.drift, level)), getattr(back.drift, level)), level
    if sol.energy_of is not None:
        assert same(sol.energy, back.energy)
    return back


def by_hand(nt=3, sizes=None, **more):
    sizes = {"q": 2, "v": 2, "a": 2, **(sizes or {})}
    rng = np.random.default_rng(1)
    parts = {name: rng.normal(size=(nt, sizes.get(name, 0))) for name in PARTS}
    names = {name: tuple(f"{name}{i}" for i in range(sizes.get(name, 0))) for name in PARTS}
    given = {"status": Status.SUCCESS, "message": "", "stats": Stats(), "orders": np.full(nt, 2), **more}
    return Solution(t=np.linspace(0, 1, nt), parts=parts, **{"names": names, **given})


@pytest.fixture(scope="module")
def pendulum():
    problem = da.problems()["pendulum"]

    def bottom(q):
        return q[0]

    def never(q):
        return q[1] - 5

    return da.solve(problem.system, (0, 3), q0=problem.q0, v0=problem.v0, events=[bottom, never])


@pytest.mark.parametrize("suffix", [".nc", ".NC", ".h5", ".hdf5", ".nc4"])
def test_round_trip_of_a_run(pendulum, tmp_path, suffix):
    back = check_round_trip(pendulum, tmp_path / f"run{suffix}")
    assert back.success
    assert len(back.t_events[0]) == 3
    assert back.events[1].q.shape == (0, 2)


def test_saving_a_loaded_solution_again(pendulum, tmp_path):
    pendulum.save(tmp_path / "a.nc")
    check_round_trip(da.load(tmp_path / "a.nc"), tmp_path / "b.nc")


@pytest.mark.parametrize("method", ["bdf", "explicit", "gauss"])
def test_dense_output_of_a_loaded_solution(tmp_path, method):
    """Without the model it is a polynomial through stored points; of long steps also points within are stored."""
    problem = da.problems()["pendulum"]
    run = da.solve(problem.system, (0, 3), q0=problem.q0, v0=problem.v0, method=method)
    run.save(tmp_path / "run.nc")
    back = da.load(tmp_path / "run.nc")
    times = np.linspace(0, 3, 50)
    for part in ("q", "v", "lam"):
        np.testing.assert_allclose(getattr(back(times), part), getattr(run(times), part), atol=2e-4)
    np.testing.assert_array_equal(back(back.t[7]).q, back.q[7])
    assert back(0.0).q.shape == (2,)


def test_every_kind_of_part(tmp_path):
    sizes = {"q": 7, "v": 6, "a": 6, "r": 1, "w": 2, "s": 3, "lam": 4, "mu": 5}
    check_round_trip(by_hand(sizes=sizes), tmp_path / "all.nc")


@pytest.mark.parametrize(
    "formulation",
    [da.StabilizedIndex2(), da.ProjectedInvariants(), da.ProjectedInvariants(balanced=True), da.StateSpace()],
    ids=lambda f: f.describe(),
)
@pytest.mark.parametrize("t_eval", [None, [0.1, 0.2]], ids=["steps", "t_eval"])
def test_further_unknowns_of_a_formulation(formulation, t_eval, tmp_path):
    problem = da.problems()["double-pendulum"]
    sol = da.solve(problem.system, (0, 0.2), q0=problem.q0, v0=problem.v0, formulation=formulation, t_eval=t_eval)
    assert sol.extra
    back = check_round_trip(sol, tmp_path / "run.nc")
    check_round_trip(back, tmp_path / "again.nc")
    data = sol.to_xarray()
    for name, values in sol.extra.items():
        variable = data[f"extra_{name}"]
        assert variable.dims == ("time", f"extra_{name}_component")
        assert same(variable.values, np.ascontiguousarray(values))
        assert list(variable[f"extra_{name}_component"].values) == [f"{name}{i}" for i in range(values.shape[1])]
        assert "formulation" in variable.attrs["long_name"]


def test_further_unknowns_with_special_values(tmp_path):
    values = np.array([[np.nan, -0.0], [np.inf, 5e-324], [1e308, -np.inf]])
    check_round_trip(by_hand(extra={"tau": values, "none": np.zeros((3, 0)), "eta": values[:, :1]}), tmp_path / "x.nc")


def test_files_without_further_unknowns_are_still_read(pendulum, tmp_path):
    """As earlier versions wrote them."""
    path = tmp_path / "old.nc"
    pendulum.save(path)
    with h5py.File(path, "a") as file:
        del file.attrs["extra"]
    assert da.load(path).extra == {}


def test_lost_further_unknowns_are_noticed(tmp_path):
    path = tmp_path / "cut.nc"
    by_hand(extra={"eta": np.ones((3, 1))}).save(path)
    with h5py.File(path, "a") as file:
        del file["extra_eta"]
    with pytest.raises(StorageError, match="damaged or incomplete"):
        da.load(path)


@pytest.mark.parametrize("nt", [0, 1, 2])
def test_few_points(nt, tmp_path):
    back = check_round_trip(by_hand(nt), tmp_path / "few.nc")
    if nt == 1:
        assert same(back(0.0).q, back.q[0])


def test_one_point_run(tmp_path):
    problem = da.problems()["pendulum"]
    sol = da.solve(problem.system, (0, 0.1), q0=problem.q0, v0=problem.v0, t_eval=[0.1])
    back = check_round_trip(sol, tmp_path / "one.nc")
    with pytest.raises(ValueError, match="t_eval only"):
        back(0.1)


def test_no_components_at_all(tmp_path):
    check_round_trip(by_hand(sizes={"q": 0, "v": 0, "a": 0}), tmp_path / "nothing.nc")


def test_failed_run(tmp_path):
    problem = da.problems()["pendulum"]
    sol = da.solve(problem.system, (0, 100), q0=problem.q0, v0=problem.v0, max_steps=20)
    assert sol.status == Status.MAX_STEPS
    back = check_round_trip(sol, tmp_path / "failed.nc")
    assert not back.success
    assert "max_steps" in back.message


@pytest.mark.parametrize("status", list(Status))
def test_every_status(status, tmp_path):
    check_round_trip(by_hand(status=status, message=status.message), tmp_path / "status.nc")


def test_special_values_and_text(tmp_path):
    sol = by_hand(
        names={"q": ("θ", "größe/π [m]"), "v": ("θ'", ""), "more": ("日本",)},
        message="zeile\nzwei “ä”",
        system_name="",
        parameters={"длина": 0.1, "A": [[1.0, 2.0], [3.0, 1e-310]], "empty": []},
        stats=Stats(steps=2**40, wall_time=0.1, method="Löser"),
    )
    sol.parts["q"][:] = [[np.nan, np.inf], [-0.0, 5e-324], [1e308, -np.inf]]
    check_round_trip(sol, tmp_path / "text µ.nc")


def test_text_that_hdf5_cannot_hold_does_not_cost_the_run(tmp_path):
    by_hand(message="a\0b \ud800").save(tmp_path / "odd.nc")
    assert da.load(tmp_path / "odd.nc").message == r"a\x00b \ud800"


def test_many_names(tmp_path):
    n = 20_000
    check_round_trip(by_hand(1, sizes={"q": n, "v": n, "a": n}), tmp_path / "large.nc")


def test_residuals_that_fail_do_not_cost_the_run(tmp_path):
    def fail():
        raise ZeroDivisionError("in the model")

    by_hand(drift_of=fail, energy_of=fail).save(tmp_path / "a.nc")
    back = da.load(tmp_path / "a.nc")
    with pytest.raises(ValueError, match=r"residuals could not be evaluated.*in the model"):
        _ = back.drift
    with pytest.raises(ValueError, match="energy could not be evaluated"):
        _ = back.energy


def test_without_energy(tmp_path):
    back = check_round_trip(by_hand(), tmp_path / "a.nc")
    with pytest.raises(ValueError, match="has no energy"):
        _ = back.energy


def test_xarray_reads_the_file_and_agrees_with_to_xarray(pendulum, tmp_path):
    pendulum.save(tmp_path / "run.nc")
    here = pendulum.to_xarray()
    with xarray.open_dataset(tmp_path / "run.nc", engine="h5netcdf") as there:
        assert there.identical(here)
        np.testing.assert_array_equal(there.q.sel(coordinate="y"), pendulum.q[:, 1])
        np.testing.assert_array_equal(there.lam.sel(constraint="rod"), pendulum.lam[:, 0])
        np.testing.assert_array_equal(there.time, pendulum.t)
        assert there.attrs["status"] == "SUCCESS"
        assert there.attrs["dalembert_version"] == da.__version__


def test_to_xarray_is_a_copy(pendulum):
    pendulum.to_xarray().q[:] = 0
    assert pendulum.q[0, 0] == 1


def test_to_xarray_without_xarray(pendulum, monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(ImportError, match=r"pip install 'dalembert\[xarray\]'"):
        pendulum.to_xarray()


# ---------------------------------------------------------------------- paths and broken files
@pytest.mark.parametrize(("name", "message"), [("run", "no extension; use run.nc"), ("run.csv", "extension '.csv'")])
def test_extension(name, message, tmp_path):
    with pytest.raises(StorageError, match=message):
        by_hand().save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_folder_that_does_not_exist(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere does not exist; create it"):
        by_hand().save(tmp_path / "nowhere" / "run.nc")


def test_path_that_is_a_folder(tmp_path):
    (tmp_path / "run.nc").mkdir()
    with pytest.raises(StorageError, match="is a folder"):
        by_hand().save(tmp_path / "run.nc")
    with pytest.raises(StorageError, match="is a folder"):
        da.load(tmp_path / "run.nc")


def test_read_only_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *args: False)  # permissions do not bind every user
    with pytest.raises(PermissionError, match=r"run\.nc.*read-only; choose another"):
        by_hand().save(tmp_path / "run.nc")


def test_a_write_that_fails_leaves_the_old_file_alone(tmp_path, monkeypatch):
    path = tmp_path / "run.nc"
    old = by_hand()
    old.save(path)

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match=r"cannot write .*run\.nc: No space left"):
        by_hand(5).save(path)
    assert [x.name for x in tmp_path.iterdir()] == ["run.nc"]
    assert same(da.load(path).q, old.q)


def test_overwriting(tmp_path):
    by_hand(5).save(tmp_path / "run.nc")
    check_round_trip(by_hand(2), tmp_path / "run.nc")
    assert [x.name for x in tmp_path.iterdir()] == ["run.nc"]


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*gone\.nc"):
        da.load(tmp_path / "gone.nc")


@pytest.mark.parametrize("content", [b"", b"t,q\n0,1\n"])
def test_not_a_netcdf_file(content, tmp_path):
    (tmp_path / "run.nc").write_bytes(content)
    with pytest.raises(StorageError, match=r"run\.nc is not a netCDF4/HDF5 file"):
        da.load(tmp_path / "run.nc")


def test_truncated_file(pendulum, tmp_path):
    path = tmp_path / "run.nc"
    pendulum.save(path)
    path.write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(StorageError, match="damaged"):
        da.load(path)


def test_another_hdf5_file(tmp_path):
    with h5py.File(tmp_path / "run.nc", "w") as file:
        file["x"] = np.zeros(3)
    with pytest.raises(StorageError, match="not a solution of dalembert"):
        da.load(tmp_path / "run.nc")


def test_newer_format(tmp_path):
    by_hand().save(tmp_path / "run.nc")
    with h5py.File(tmp_path / "run.nc", "a") as file:
        file.attrs["format_version"] = 99
    with pytest.raises(StorageError, match=r"format version 99.*pip install -U dalembert"):
        da.load(tmp_path / "run.nc")


@pytest.mark.parametrize("lost", ["q", "lam", "time"])
def test_lost_variable(lost, pendulum, tmp_path):
    pendulum.save(tmp_path / "run.nc")
    with h5py.File(tmp_path / "run.nc", "a") as file:
        del file[lost]
    with pytest.raises(StorageError, match="damaged or incomplete"):
        da.load(tmp_path / "run.nc")


@pytest.mark.parametrize("attribute", ["status", "names", "stats", "format_version"])
def test_lost_attribute(attribute, tmp_path):
    by_hand().save(tmp_path / "run.nc")
    with h5py.File(tmp_path / "run.nc", "a") as file:
        del file.attrs[attribute]
    with pytest.raises(StorageError, match="damaged or incomplete"):
        da.load(tmp_path / "run.nc")


def test_stats_of_another_version(tmp_path):
    sol = by_hand(stats=replace(Stats(), steps=7))
    sol.save(tmp_path / "run.nc")
    with h5py.File(tmp_path / "run.nc", "a") as file:
        file.attrs["stats"] = '{"steps": 7, "of_the_future": 1}'
    assert da.load(tmp_path / "run.nc").stats == Stats(steps=7)
