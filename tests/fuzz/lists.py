"""Text files that list things: classes, texts, images; and damaged pictures themselves."""

import io

import numpy as np

from .mutate import damaged, odd_text
from .tables import CLASSES, use_every_way
from .target import FileTarget, Target, require

SECRET = "sixty-two-year-old"
"""Stands in every line; no message may repeat it."""


class _Text(FileTarget):
    """A text file."""

    lines: tuple[str, ...]

    def write(self, folder):
        (folder / self.file).write_text("\n".join(self.lines) + "\n")

    def edit(self, content, dice):
        text = content.decode()
        for _ in range(dice.choice((1, 2, 5))):
            place = dice.randrange(len(text))
            text = text[:place] + odd_text(dice) + text[place + dice.choice((0, 0, 1, 9)) :]
        return text.encode(dice.choice(("utf-8", "utf-8", "utf-8", "utf-16", "latin1")), "replace")

    def use(self, folder, repaired):
        try:
            self.read(folder / self.file)
        except Exception as problem:
            require(SECRET not in str(problem), "a message repeats what a private line holds")
            raise


class Classes(_Text):
    name, file, lines = "classes", "classes.txt", ("ant", "bee", "cat")

    def read(self, path):
        from dptransfer.cli.options import class_list
        from dptransfer.data import PrivateEmbeddings

        names = class_list(str(path))
        PrivateEmbeddings(np.zeros((1, 2)), [names[0] if names else 0], classes=names)


class Texts(_Text):
    name, file = "texts", "texts.csv"
    lines = ("text,label,who", *(f'"a {SECRET}, case {i}",{CLASSES[i % 3]},{SECRET}-{i}' for i in range(20)))

    def read(self, path):
        from dptransfer.data import Columns
        from dptransfer.sources import find_texts

        plain = path.with_suffix(".txt")
        plain.write_bytes(path.read_bytes())
        try:
            use_every_way(
                lambda: find_texts(path, classes=CLASSES),
                lambda: find_texts(path, labelled=False),
                lambda: find_texts(path, Columns(person="who"), labelled=False),
                lambda: find_texts(plain),
            )
        finally:
            plain.unlink()


class ImageLists(_Text):
    name, file = "image list", "images.csv"
    lines = ("path,label", *(f"{CLASSES[i % 3]}/{SECRET}-{i}.png,{CLASSES[i % 3]}" for i in range(20)))

    def read(self, path):
        from dptransfer.sources import find_images

        use_every_way(
            lambda: find_images(path, classes=CLASSES).sources(),
            lambda: find_images(path, labelled=False).sources(),
        )


class People(_Text):
    """Whose each of twenty pictures is, with one more than there are."""

    name, file = "people", "people.csv"
    lines = ("path,person", *(f"{CLASSES[i % 3]}/{i}.png,{SECRET}-{i % 7}" for i in range(21)))

    def read(self, path):
        from dptransfer.data import Columns
        from dptransfer.sources import find_images

        images = [path.parent / CLASSES[i % 3] / f"{i}.png" for i in range(20)]
        listed = path.with_name("images.csv")
        listed.write_text("\n".join(["path", *(str(image) for image in images)]))
        try:
            found = find_images(listed, Columns(person=path)).people
            require(len(found) == 20 and found.max() < 20, "every picture has a person")
        finally:
            listed.unlink()


class Features(_Text):
    """A table with a column per feature; labels and people are no features."""

    name, file = "features", "features.csv"
    lines = ("f1,f2,label,who", *(f"{i}.5,-1e{i},{CLASSES[i % 3]},{SECRET}-{i}" for i in range(20)))

    def read(self, path):
        from dptransfer.data import Columns
        from dptransfer.sources import read_private, read_table

        use_every_way(
            lambda: read_private(path, classes=CLASSES, people="who").fingerprint,
            lambda: read_private(path, Columns(features="f*"), classes=CLASSES).fingerprint,
            lambda: read_table(path, Columns(features="f1")),
        )


class Archives(Target):
    """Pictures in a zip and in a tar; whatever the archive says, nothing is written elsewhere."""

    name = "archives"

    def write(self, folder):
        import tarfile
        import zipfile

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
        from dptransfer.sources import find_images

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
        from PIL import Image

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
        from dptransfer.encoders import encode_images_in_memory
        from dptransfer.sources import find_images

        rows, unreadable = encode_images_in_memory(find_images(folder), _mean_colour(), batch=2)
        there = len(list(folder.iterdir()))
        require(rows.shape == (there, 3), "a picture that cannot be read is a row all the same")
        require(not rows[list(unreadable)].any(), "a picture that cannot be read is a row of zeros")


def _mean_colour():
    """An encoder of pictures, which must be in colour."""
    from dptransfer.data import EncoderIdentity
    from dptransfer.encoders import ImageEncoder

    class MeanColour(ImageEncoder):
        identity, dimension = EncoderIdentity("mean-colour", "0" * 64, "8 px"), 3

        def prepare(self, image):
            return np.asarray(image.resize((8, 8)), dtype=np.float32)

        def forward(self, pixels):
            return pixels.mean(axis=(1, 2))

    return MeanColour()


def targets():
    return [Classes(), Texts(), ImageLists(), People(), Features(), Archives(), Pictures()]
