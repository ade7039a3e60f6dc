from dptransfer.serve.app import make_app as make_app
from dptransfer.serve.limits import Limits as Limits
from dptransfer.serve.server import run_server as run_server
