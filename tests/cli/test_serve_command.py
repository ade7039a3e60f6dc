"""`dptransfer serve`: what is wrong is said before anything listens."""

import socket

import pytest


def test_a_port_that_is_taken_is_an_error_in_a_line(model, cli):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = cli("serve", model, "--port", str(taken.getsockname()[1]), code=2)
    assert refused.stderr.startswith("Error: ")


@pytest.mark.parametrize("token", ["short", "ä" * 20])
def test_a_weak_token_is_refused(model, cli, tmp_path, token):
    (tmp_path / "token").write_text(token)
    assert "secrets" in cli("serve", model, "--token-file", tmp_path / "token", code=2).stderr
