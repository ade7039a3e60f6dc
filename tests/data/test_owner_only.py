import os
import stat

import pytest

from dptransfer.data.atomic_files import make_owner_folder, others_may_look, owner_only

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")


@pytest.fixture(params=[0, 0o022, 0o077])
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


def test_what_is_made_is_the_owners_alone_whatever_the_umask(tmp_path, umask):
    make_owner_folder(tmp_path / "folder")
    file = tmp_path / "folder" / "file"
    with open(file, "w", opener=owner_only):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600  # already, while it is empty
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o700
    with pytest.raises(FileExistsError):
        make_owner_folder(tmp_path / "folder")


@pytest.mark.parametrize(("mode", "open_to_others"), [(0o700, False), (0o750, True), (0o701, True)])
def test_a_folder_that_others_may_enter_is_noticed(tmp_path, mode, open_to_others):
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(mode)
    assert others_may_look(folder) is open_to_others
