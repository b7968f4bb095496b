"""The notebooks of the examples, executed as their readers do."""

import json

import pytest
from conftest import EXAMPLES


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda file: file.stem)
def test_notebook(workdir, file):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    for package in ("ipykernel", "pandas", "matplotlib", "scipy"):
        pytest.importorskip(package)
    given = json.loads(file.read_text())
    assert all(not cell.get("outputs") and not cell.get("execution_count") for cell in given["cells"]), "it is kept without results"
    notebook = nbformat.read(file, as_version=4)
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(workdir)}}).execute()
    shown = [output["data"] for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs if "data" in output]
    pages = [data["text/html"] for data in shown if "text/html" in data]
    assert len(pages) == 5 and all("<svg" in page for page in (pages[0], pages[1], pages[3])), "experiment, results, flows, sweep, table"
    assert any("image/png" in data for data in shown), "the figure"
    assert (workdir / "download/report.html").is_file()
