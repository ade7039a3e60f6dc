"""`dptransfer demo` as people type it."""


def test_demo_passes_its_options_on(cli, monkeypatch, tmp_path):
    seen = {}
    monkeypatch.setattr("dptransfer_lab.demo.run.run_demo", lambda **given: seen.update(given))
    cli("demo", "--data", "fashion-mnist", "--out", tmp_path / "x", "--epsilon", "2")
    assert (seen["data"], seen["out"], seen["epsilon"]) == ("fashion-mnist", tmp_path / "x", 2.0)
    assert seen["console"] is not None
