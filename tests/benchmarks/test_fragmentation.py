"""The openb benchmark with any file of pods: columns that may lack, and files that cannot be used."""

import sys
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import fragmentation as openb
from benchmarks.fragmentation import PodsFileError, Shape, read_pods

GIB = 2**30
PLAIN = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,4000,1024,1,500\nb,8000,2048,2,1000\nc,1000,1024,0,0\n"
WITH_MODELS = "gpu_spec,gpu_milli,num_gpu,memory_mib,cpu_milli,qos\nT4|P100,1000,1,1024,4000,LS\n,1000,1,1024,4000,BE\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.csv"
    path.write_text(text)
    return path


def test_pods_without_a_gpu_spec_column_take_any_gpu(tmp_path: Path) -> None:
    want = [Shape(4000, GIB, 500, ()), Shape(8000, 2 * GIB, 2000, ()), Shape(1000, GIB, 0, ())]
    assert read_pods(written(tmp_path, PLAIN)) == want


def test_columns_may_stand_in_any_order_and_a_gpu_spec_names_models(tmp_path: Path) -> None:
    assert [shape.models for shape in read_pods(written(tmp_path, WITH_MODELS))] == [("T4", "P100"), ()]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "columns cpu_milli, memory_mib, num_gpu, gpu_milli are missing, or it has no rows"),
        ("name,cpu_milli,memory_mib\na,1,1\n", "columns num_gpu, gpu_milli are missing"),
        (PLAIN.replace("8000", "8.5"), "mine.csv:3: cpu_milli is '8.5': write a whole number"),
        ("cpu_milli,memory_mib,num_gpu,gpu_milli\n1,1,0,0\n", "no pod asks for a GPU"),
    ],
    ids=["empty", "no GPU columns", "no whole number", "no GPU asked for"],
)
def test_a_file_that_cannot_be_used_says_why(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(PodsFileError, match=says):
        read_pods(written(tmp_path, text))


def test_the_command_names_a_file_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--pods", str(tmp_path / "none.csv")])
    with pytest.raises(SystemExit) as ended:
        command.app()
    assert ended.value.code == 2
    assert "none.csv" in capsys.readouterr().err


def test_figures_of_other_pods_have_the_files_name_and_no_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openb, "TRACE", tmp_path)
    (tmp_path / "gpu_nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,2,T4\n")
    rows = openb.fragmentation_of(written(tmp_path, PLAIN), 10)
    assert [row.name for row in rows] == [
        f"openb mine_{what}" for what in ("gpu_allocated", "gpu_allocated_130", "time")
    ]
    assert {row.target for row in rows} == {None}
    assert all(0 < row.value <= 100 for row in rows[:2])
