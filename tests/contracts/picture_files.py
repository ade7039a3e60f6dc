"""Picture files of every kind, written byte by byte: what is in them is known, and not by Pillow alone."""

import struct
import zlib

import numpy as np

GREY, COLOUR, PALETTE, GREY_ALPHA, COLOUR_ALPHA = 0, 2, 3, 4, 6  # PNG's kinds


def png(path, samples, bits, kind=GREY, *chunks, size=None):
    """A PNG of (height, width[, channels]) samples; `chunks` are pairs of a name and bytes."""
    samples = np.asarray(samples)
    height, width = size or samples.shape[:2]
    rows = samples.reshape(len(samples), -1)
    if bits == 16:
        lines = [row.astype(">u2").tobytes() for row in rows]
    else:
        spread = (rows[..., None] >> np.arange(bits - 1, -1, -1)) & 1
        lines = [np.packbits(row.ravel()).tobytes() for row in spread]
    data = zlib.compress(b"".join(b"\0" + line for line in lines))
    header = struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, 0)
    parts = [(b"IHDR", header), *chunks, (b"IDAT", data), (b"IEND", b"")]
    content = b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in parts
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + content)
    return path


def tiff(path, samples, *, bits=None, form=None, photometric=1, order="<", pages=1, **tags):
    """A TIFF without compression of (height, width[, channels]) samples, by default of the array's own type.

    Other tags are t340=(type, value), with TIFF's own numbers: 3 short, 4 long, 8 and 9 signed, 11 float.
    """
    samples = np.asarray(samples)
    height, width = samples.shape[:2]
    channels = 1 if samples.ndim == 2 else samples.shape[2]
    form = form or {"u": 1, "i": 2, "f": 3}[samples.dtype.kind]
    if bits in (1, 2, 4, 12):
        spread = (samples[..., None] >> np.arange(bits - 1, -1, -1)) & 1
        data = b"".join(np.packbits(row.ravel()).tobytes() for row in spread)
    else:
        bits = 8 * samples.dtype.itemsize
        data = samples.astype(samples.dtype.newbyteorder(order)).tobytes()
    if tags.get("t259", (3, 1))[1] == 8:
        data = zlib.compress(data)
    packed = {3: "H", 4: "I", 8: "h", 9: "i", 11: "f"}
    entries = {
        256: (4, width), 257: (4, height), 258: (3, bits), 259: (3, 1), 262: (3, photometric), 273: (4, 8),
        277: (3, channels), 278: (4, height), 279: (4, len(data)), 339: (3, form),
    }  # fmt: skip
    entries |= {int(name[1:]): value for name, value in tags.items()}
    data += b"\0" * (len(data) % 2)
    out, start = data, 8 + len(data)
    for page in range(pages):
        far, body = b"", struct.pack(order + "H", len(entries))
        after = start + 2 + 12 * len(entries) + 4
        for tag, (kind, value) in sorted(entries.items()):
            many = channels if tag in (258, 339) else 1
            content = struct.pack(order + packed[kind] * many, *[value] * many)
            if len(content) > 4:
                place, far = after + len(far), far + content
                content = struct.pack(order + "I", place)
            body += struct.pack(order + "HHI", tag, kind, many) + content.ljust(4, b"\0")
        last = page == pages - 1
        out += body + struct.pack(order + "I", 0 if last else after + len(far)) + far
        start = after + len(far)
    path.write_bytes((b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, 8 + len(data)) + out)
    return path
