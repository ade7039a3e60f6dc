import pytest


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """One thread for torch: its threads spin while they wait, which is ruinous on a busy machine."""
    try:
        import torch
    except ImportError:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
