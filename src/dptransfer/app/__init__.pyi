from dptransfer.app.server import run_app as run_app
