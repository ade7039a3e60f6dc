import pytest


@pytest.fixture(autouse=True)
def quickly(one_thread_of_blas):
    """These run small problems, very many times."""
