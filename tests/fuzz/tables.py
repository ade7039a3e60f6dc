"""Files of rows and labels: `.npy`, `.npz`, `.safetensors`, `.parquet`, `.pt`; and saved data sets."""

import io
import json
import struct
import zipfile
from importlib.util import find_spec

import numpy as np

from dptransfer.errors import DPTransferError
from dptransfer.sources import read_private, read_public, read_table

from .mutate import damaged, damaged_json
from .target import FileTarget, Target

CLASSES = ("ant", "bee", "cat")


def rows_and_labels():
    dice = np.random.default_rng(0)
    return dice.normal(size=(30, 5)).astype(np.float32), dice.integers(0, 3, 30)


def use_every_way(*ways):
    """Call each of them; all may refuse, and then so does this."""
    refusals = []
    for way in ways:
        try:
            way()
        except DPTransferError as refusal:
            refusals.append(refusal)
    if len(refusals) == len(ways):
        raise refusals[0]


def read_as_rows(path, labels=None):
    """Read the file as rows, as private rows and as public ones, down to the last number."""
    use_every_way(
        lambda: np.array(read_table(path).rows),
        lambda: read_private(path, classes=CLASSES, labels=labels).fingerprint,
        lambda: read_private(path, labels=labels).fingerprint,
        lambda: read_private(path, classes=CLASSES, labels=labels, people="y").people,
        lambda: read_public(path, labels=labels).fingerprint,
    )


def read_labels_beside_rows(path):
    """Read an `.npy` file as labels, and as people, of intact rows beside it."""
    x, y = rows_and_labels()
    rows = path.with_name("rows.npy")
    np.save(rows, x)
    try:
        use_every_way(
            lambda: read_private(rows, classes=CLASSES, labels=path).fingerprint,
            lambda: read_private(rows, labels=path).fingerprint,
            lambda: read_public(rows, labels=path).fingerprint,
            lambda: read_private(rows, labels=y, classes=CLASSES, people=path),
        )
    finally:
        rows.unlink()


def as_bytes(save, *content, **arrays):
    """What `save` writes."""
    written = io.BytesIO()
    save(written, *content, **arrays)
    return written.getvalue()


class Npz(Target):
    name = "npz"

    def write(self, folder):
        x, y = rows_and_labels()
        np.savez(folder / "rows.npz", x=x, y=y, classes=np.array(CLASSES))

    def damage(self, folder, dice):
        path = folder / "rows.npz"
        content = path.read_bytes()
        repair = dice.random() < 0.5
        path.write_bytes(_packed_again(content, dice) if repair else damaged(content, dice))
        return repair

    def use(self, folder, repaired):
        read_as_rows(folder / "rows.npz")


class SavedDataSet(Target):
    """A data set that was saved to disk: an Arrow stream, and what is told of it."""

    name = "saved data set"

    def write(self, folder):
        import pyarrow

        table = _parquet_table()
        with pyarrow.OSFile(str(folder / "data.arrow"), "wb") as file:
            with pyarrow.ipc.new_stream(file, table.schema) as stream:
                stream.write_table(table)
        (folder / "dataset_info.json").write_text("{}")
        (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data.arrow"}]}))

    def damage(self, folder, dice):
        if dice.random() < 0.3:
            state = folder / "state.json"
            state.write_text(damaged_json(state.read_text(), dice), errors="replace")
            return False
        data = folder / "data.arrow"
        data.write_bytes(damaged(data.read_bytes(), dice))
        return False

    def use(self, folder, repaired):
        read_as_rows(folder)


def _parquet_bytes(table):
    from pyarrow import parquet

    return as_bytes(lambda stream: parquet.write_table(table, stream))


def _torch_bytes(content):
    import torch

    return as_bytes(lambda stream: torch.save(content, stream))


def _tensors():
    import torch

    x, y = map(torch.from_numpy, rows_and_labels())
    return {"x": x, "y": y, "classes": list(CLASSES)}


def odd_array(content, dice):
    """An `.npy` file whose header says something else, in the same form or in none."""
    length = struct.unpack("<H", content[8:10])[0]
    header, numbers = content[10 : 10 + length].decode().strip(), content[10 + length :]
    fields = {"descr": "'<f4'", "fortran_order": "False", "shape": "(30, 5)"}
    for _ in range(dice.choice((1, 1, 2))):
        name = dice.choice(("descr", "shape", "shape", "fortran_order", "extra", "text"))
        if name == "text":
            header = damaged(header.encode(), dice).decode("latin1")
            break
        fields[name] = dice.choice(_ODD_HEADERS.get(name, ("1",)))
        header = "{" + ", ".join(f"'{key}': {value}" for key, value in fields.items()) + "}"
    version = dice.choice((b"\1\0", b"\1\0", b"\1\0", b"\2\0", b"\3\0", b"\4\0"))
    size = struct.pack("<H" if version == b"\1\0" else "<I", len(header) + 1)
    return content[:6] + version + size + header.encode("latin1", "replace") + b"\n" + numbers


_ODD_TYPES = "|O <f2 <f3 >f4 >f8 <f16 <c8 |b1 |S0 <U7 <U1000000000 |V0 |V8 <M8[D] <m8[s] x"
_ODD_HEADERS = {
    "descr": (*map(repr, _ODD_TYPES.split()), "[('a', '<f4')]", "[]", "None", "['<f4', (2, 2)]"),
    "shape": (
        "(30,)", "(150,)", "()", "(5, 30)", "(30, 5, 1)", "(0, 5)", "(30, 0)", "(-1, 5)", "(30, -5)",
        "(31, 5)", "(1000000000000, 5)", "(9223372036854775807, 2)", "(True, 5)", "(30.0, 5)", "150", "None",
        "('30', 5)", "(4294967296, 4294967296)", "(18446744073709551616, 1)",
    ),
    "fortran_order": ("True", "0", "None", "'no'"),
}  # fmt: skip


def _packed_again(content, dice):
    """The archive with a damaged member, or with names, members and methods that were not there."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(packed, "w") as new:
        members = {name: old.read(name) for name in old.namelist()}
        victim = dice.choice(list(members))
        kind = dice.randrange(6)
        if kind <= 2:
            members[victim] = odd_array(members[victim], dice)
        elif kind == 3:
            members[victim] = damaged(members[victim], dice, members["x.npy"])
        elif kind == 4:
            names = "x q_train.npy x_test.npy y_train.npy scale.npy offset.npy q.npy  a/b.npy"
            members[dice.choice(names.split(" "))] = members.pop(victim)
        else:
            members[dice.choice(("q.npy", "scale.npy", "offset.npy", "label.npy"))] = members[victim]
        method = dice.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
        for name, member in members.items():
            new.writestr(zipfile.ZipInfo(name), member, method)
    return packed.getvalue()


def other_header(content, dice):
    """A safetensors file with an edited header, whose length is put right."""
    length = struct.unpack("<Q", content[:8])[0]
    header = damaged_json(content[8 : 8 + length].decode(), dice).encode()
    return struct.pack("<Q", len(header)) + header + content[8 + length :]


def _parquet_table(features=None):
    import pyarrow

    x, y = rows_and_labels()
    table = pyarrow.table({"embedding": x.tolist(), "label": y.tolist()})
    told = {"info": {"features": features or {"label": {"names": list(CLASSES), "_type": "ClassLabel"}}}}
    return table.replace_schema_metadata({"huggingface": json.dumps(told)})


def _odd_table(dice):
    """A complete Parquet file with the wrong things in it."""
    import pyarrow

    table = _parquet_table()
    if dice.random() < 0.5:
        written = table.schema.metadata[b"huggingface"].decode()
        told = damaged_json(written, dice).encode("utf-8", "replace")
        told = damaged(told, dice) if dice.random() < 0.2 else told
        return table.replace_schema_metadata({"huggingface": told})
    x, y = rows_and_labels()
    odd_columns = (
        ("embedding", [*x.tolist()[1:], None]),
        ("embedding", [*x.tolist()[1:], [1.0]]),
        ("embedding", [*x.tolist()[1:], [None] * 5]),
        ("embedding", [[] for _ in x]),
        ("embedding", [["a"] for _ in x]),
        ("embedding", y.tolist()),
        ("label", [None, *y.tolist()[1:]]),
        ("label", [[int(one)] for one in y]),
        ("label", (y + 0.5).tolist()),
        ("label", ["ant", *["dog"] * (len(y) - 1)]),
        ("label", [2**63 - 1] * len(y)),
    )
    name, column = dice.choice(odd_columns)
    return table.set_column(table.column_names.index(name), name, pyarrow.array(column))


def _odd_tensors(dice):
    """A complete `.pt` file with the wrong things in it."""
    import torch

    x, y = map(torch.from_numpy, rows_and_labels())
    rows = dice.choice(
        (x.to(torch.bfloat16), x.to(torch.complex64), x.to_sparse(), x[0], x[None], x[:, :0], x[:0],
         x.tolist(), [[1.0], [1.0, 2.0]], ["a"], [], None, x.requires_grad_(), x.to(torch.float8_e4m3fn),
         x.bool(), torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), torch.nn.Parameter(x), x.to("meta"))
    )  # fmt: skip
    odd_labels = y, y.float(), y[:-1], y[:, None], list(CLASSES), y.tolist(), [[0], [1, 2]], None, y.bool()
    labels = dice.choice(odd_labels)
    classes = dice.choice((list(CLASSES), [], [1, "a"], [["a"], ["b", "c"]], "abc", None, ["a", "a", "b"], y))
    whole = {"x": rows, "y": labels, "classes": classes}
    others = rows, [rows], {1: rows}, {"scale": y, "offset": y, "q": rows}
    return _torch_bytes(dice.choice((whole, whole, whole, *others)))


def targets():
    """Those whose packages are installed."""
    from safetensors.numpy import save

    x, y = rows_and_labels()
    tensors = save({"x": x, "y": y}, {"classes": json.dumps(CLASSES)})
    found = [
        FileTarget(
            "npy", "rows.npy", lambda: as_bytes(np.save, x), odd_array, lambda path: read_as_rows(path, y)
        ),
        FileTarget("labels", "labels.npy", lambda: as_bytes(np.save, y), odd_array, read_labels_beside_rows),
        Npz(),
        FileTarget("safetensors", "rows.safetensors", lambda: tensors, other_header, read_as_rows),
    ]
    if find_spec("pyarrow"):
        table, odd = _parquet_table, lambda _, dice: _parquet_bytes(_odd_table(dice))
        found.append(
            FileTarget("parquet", "rows.parquet", lambda: _parquet_bytes(table()), odd, read_as_rows)
        )
        found.append(SavedDataSet())
    if find_spec("torch"):
        odd_tensors = lambda _, dice: _odd_tensors(dice)  # noqa: E731
        found.append(FileTarget("pt", "rows.pt", lambda: _torch_bytes(_tensors()), odd_tensors, read_as_rows))
    return found
