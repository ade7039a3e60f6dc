"""What several test packages share: nasty rows, the suite every method passes.

Importing it moves the cache of public axes to a folder of its own, so that no test touches the user's.
"""

import atexit
import os
import shutil
import tempfile

if "DPTRANSFER_CACHE" not in os.environ:
    os.environ["DPTRANSFER_CACHE"] = tempfile.mkdtemp(prefix="dptransfer-tests-")
    atexit.register(shutil.rmtree, os.environ["DPTRANSFER_CACHE"], ignore_errors=True)
