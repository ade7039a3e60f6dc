"""Text files that list things: classes, texts, images; and damaged pictures themselves."""

import io
import tarfile
import zipfile
from contextlib import contextmanager

import numpy as np
from PIL import Image

from dptransfer.cli.options import class_list
from dptransfer.data import Columns, EncoderIdentity, PrivateEmbeddings
from dptransfer.encoders import ImageEncoder, encode_images_in_memory
from dptransfer.sources import find_images, find_texts, read_private, read_table

from .mutate import damaged, odd_text
from .tables import CLASSES, use_every_way
from .target import FileTarget, Target, require

SECRET = "sixty-two-year-old"
"""Stands in every line; no message may repeat it."""


def text_target(name, file, lines, read):
    """A text file of lines; no message of its reader may repeat what stands in one."""

    def edit(content, dice):
        text = content.decode()
        for _ in range(dice.choice((1, 2, 5))):
            place = dice.randrange(len(text))
            text = text[:place] + odd_text(dice) + text[place + dice.choice((0, 0, 1, 9)) :]
        return text.encode(dice.choice(("utf-8", "utf-8", "utf-8", "utf-16", "latin1")), "replace")

    def use(path):
        try:
            read(path)
        except Exception as problem:
            require(SECRET not in str(problem), "a message repeats what a private line holds")
            raise

    return FileTarget(name, file, lambda: ("\n".join(lines) + "\n").encode(), edit, use)


def read_classes(path):
    names = class_list(str(path))
    PrivateEmbeddings(np.zeros((1, 2)), [names[0] if names else 0], classes=names)


@contextmanager
def beside(path, name, content):
    """Another file in the folder, for a while: reading must not change what is there."""
    other = path.with_name(name)
    other.write_bytes(content)
    try:
        yield other
    finally:
        other.unlink()


def read_texts(path):
    with beside(path, "texts.txt", path.read_bytes()) as plain:
        use_every_way(
            lambda: find_texts(path, classes=CLASSES),
            lambda: find_texts(path, labelled=False),
            lambda: find_texts(path, Columns(person="who"), labelled=False),
            lambda: find_texts(plain),
        )


def read_image_list(path):
    use_every_way(
        lambda: find_images(path, classes=CLASSES).sources(),
        lambda: find_images(path, labelled=False).sources(),
    )


def read_people(path):
    """Whose each of twenty pictures is, in a list with one more than there are."""
    images = [path.parent / CLASSES[i % 3] / f"{i}.png" for i in range(20)]
    with beside(path, "images.csv", "\n".join(["path", *map(str, images)]).encode()) as listed:
        found = find_images(listed, Columns(person=path)).people
    require(len(found) == 20 and found.max() < 20, "every picture has a person")


def read_features(path):
    """A table with a column per feature; labels and people are no features."""
    use_every_way(
        lambda: read_private(path, classes=CLASSES, people="who").fingerprint,
        lambda: read_private(path, Columns(features="f*"), classes=CLASSES).fingerprint,
        lambda: read_table(path, Columns(features="f1")),
    )


class Archives(Target):
    """Pictures in a zip and in a tar; whatever the archive says, nothing is written elsewhere."""

    name = "archives"

    def write(self, folder):
        names = [f"{CLASSES[i % 3]}/{i}.png" for i in range(6)]
        with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for name in names:
                archive.writestr(name, name * 20)
        with tarfile.open(folder / "a.tar", "w") as archive:
            for name in names:
                info = tarfile.TarInfo(name)
                info.size = len(name) * 20
                archive.addfile(info, io.BytesIO(name.encode() * 20))

    def damage(self, folder, dice):
        for path in sorted(folder.iterdir()):
            path.write_bytes(damaged(path.read_bytes(), dice))
        return False

    def use(self, folder, repaired):
        def read(path):
            found = find_images(path, classes=CLASSES)
            inside = found.root.resolve()
            require(all(one.resolve().is_relative_to(inside) for one in found.paths), "a name leads out")
            require(all(one.stat().st_size < 10**6 for one in found.paths), "more is written than was packed")

        use_every_way(lambda: read(folder / "a.zip"), lambda: read(folder / "a.tar"))


class Pictures(Target):
    """A picture is read or it is not; which of the two is private, so nothing may be said about it."""

    name = "pictures"

    def write(self, folder):
        grey = np.random.default_rng(0).integers(0, 4096, (16, 16)).astype(np.uint16)
        Image.fromarray(grey).save(folder / "grey.png")
        Image.fromarray(grey).save(folder / "grey.tif")
        plain, turned = Image.fromarray((grey % 256).astype(np.uint8)), Image.Exif()
        turned[0x0112] = 3  # upside down
        plain.convert("RGB").save(folder / "colour.jpg", exif=turned)
        plain.convert("RGBA").save(folder / "clear.webp")
        plain.save(folder / "plain.gif")

    def damage(self, folder, dice):
        kept = dice.choice(sorted(folder.iterdir()))
        for path in folder.iterdir():
            if path != kept:
                path.unlink()
        kept.write_bytes(damaged(kept.read_bytes(), dice))
        return False

    def use(self, folder, repaired):
        rows, unreadable = encode_images_in_memory(find_images(folder), MeanColour(), batch=2)
        there = len(list(folder.iterdir()))
        require(rows.shape == (there, 3), "a picture that cannot be read is a row all the same")
        require(not rows[list(unreadable)].any(), "a picture that cannot be read is a row of zeros")


class MeanColour(ImageEncoder):
    """An encoder of pictures, which must be in colour."""

    identity, dimension = EncoderIdentity("mean-colour", "0" * 64, "8 px"), 3

    def prepare(self, image):
        return np.asarray(image.resize((8, 8)), dtype=np.float32)

    def forward(self, pixels):
        return pixels.mean(axis=(1, 2))


def targets():
    texts = (f'"a {SECRET}, case {i}",{CLASSES[i % 3]},{SECRET}-{i}' for i in range(20))
    images = (f"{CLASSES[i % 3]}/{SECRET}-{i}.png,{CLASSES[i % 3]}" for i in range(20))
    people = (f"{CLASSES[i % 3]}/{i}.png,{SECRET}-{i % 7}" for i in range(21))
    features = (f"{i}.5,-1e{i},{CLASSES[i % 3]},{SECRET}-{i}" for i in range(20))
    return [
        text_target("classes", "classes.txt", ("ant", "bee", "cat"), read_classes),
        text_target("texts", "texts.csv", ("text,label,who", *texts), read_texts),
        text_target("image list", "images.csv", ("path,label", *images), read_image_list),
        text_target("people", "people.csv", ("path,person", *people), read_people),
        text_target("features", "features.csv", ("f1,f2,label,who", *features), read_features),
        Archives(),
        Pictures(),
    ]
