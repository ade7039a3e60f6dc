import json

import pytest

from dptransfer.errors import DataError
from dptransfer.sources import find_texts, read_table

pa = pytest.importorskip("pyarrow")


@pytest.fixture
def saved(tmp_path):
    """A data set as `datasets.Dataset.save_to_disk` writes it, in two files."""
    folder = tmp_path / "saved"
    folder.mkdir()
    for number, start in enumerate((0, 2)):
        table = pa.table({"x": [[float(start)], [start + 1.0]], "label": [0, 1]})
        with pa.OSFile(str(folder / f"data-{number}.arrow"), "wb") as file:
            with pa.ipc.new_stream(file, table.schema) as stream:
                stream.write_table(table)
    (folder / "dataset_info.json").write_text("{}")
    listing(folder, "data-0.arrow", "data-1.arrow")
    return folder


def listing(folder, *names, **more):
    (folder / "state.json").write_text(
        json.dumps({"_data_files": [{"filename": one} for one in names], **more})
    )


def test_the_files_of_a_saved_data_set_are_read_in_their_order(saved):
    assert read_table(saved).rows.ravel().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["../data-0.arrow", "/etc/passwd", "..", "", "a\\b", "c:x"])
def test_a_listing_that_leads_out_of_its_folder_is_refused(saved, name):
    listing(saved, name)
    with pytest.raises(DataError, match="outside"):
        read_table(saved)


def test_chosen_rows_beside_the_files_are_refused_with_the_way_to_save_them(saved):
    listing(saved, "data-0.arrow", _indices_data_files=[{"filename": "indices.arrow"}])
    with pytest.raises(DataError, match="flatten_indices"):
        read_table(saved)


def test_damage_is_one_error(saved):
    whole = (saved / "data-0.arrow").read_bytes()
    for content in (b"", whole[: len(whole) // 2], b"\xff" * 64):
        (saved / "data-0.arrow").write_bytes(content)
        with pytest.raises(DataError):
            read_table(saved)
    (saved / "state.json").write_text("[]")
    with pytest.raises(DataError, match="load_from_disk"):
        read_table(saved)


def test_offsets_that_lead_out_of_the_file_are_refused(saved):
    """They would be followed only when a cell is looked at, and end the process."""
    table = pa.table({"text": ["a" * 40, "b" * 40], "label": [0, 1]})
    with pa.OSFile(str(saved / "data-0.arrow"), "wb") as file:
        with pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)
    listing(saved, "data-0.arrow")
    content = (saved / "data-0.arrow").read_bytes()
    offsets = (0).to_bytes(4, "little") + (40).to_bytes(4, "little") + (80).to_bytes(4, "little")
    assert content.count(offsets) == 1
    wrong = offsets[:4] + (2**30).to_bytes(4, "little") + offsets[8:]
    (saved / "data-0.arrow").write_bytes(content.replace(offsets, wrong))
    with pytest.raises(DataError, match="load_from_disk"):
        find_texts(saved, labelled=False)
