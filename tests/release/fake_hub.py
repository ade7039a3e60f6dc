"""The hub is played by the functions of huggingface_hub with their true signatures, on a folder."""

import shutil
from pathlib import Path
from unittest.mock import create_autospec

import pytest


@pytest.fixture
def remote(tmp_path, monkeypatch):
    """A folder in the place of the hub, in which each repository is a folder."""
    import huggingface_hub

    from dptransfer.release import hub

    store = tmp_path / "hub"
    monkeypatch.setenv("DPTRANSFER_CACHE", str(tmp_path / "cache"))
    hub.download_release.cache_clear()

    def upload(self, *, repo_id, folder_path, commit_message, allow_patterns):
        target = store / repo_id
        target.mkdir(parents=True, exist_ok=True)
        for name in allow_patterns:
            shutil.copy(Path(folder_path) / name, target / name)

    def create(self, repo_id, *, private, exist_ok):
        return f"https://hub.example/{repo_id}?private={private}"

    def snapshot(repo_id, *, revision, local_dir, allow_patterns):
        shutil.copytree(store / repo_id, local_dir, dirs_exist_ok=True)

    for owner, name, play in (
        (huggingface_hub.HfApi, "upload_folder", upload),
        (huggingface_hub.HfApi, "create_repo", create),
        (huggingface_hub, "snapshot_download", snapshot),
    ):
        spec = create_autospec(getattr(owner, name), side_effect=play)
        monkeypatch.setattr(owner, name, spec)
    return store
