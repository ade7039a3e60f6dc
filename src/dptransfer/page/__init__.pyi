from dptransfer.page.comparison import SelfTest as SelfTest
from dptransfer.page.comparison import compare_with_python as compare_with_python
from dptransfer.page.ort_runtime import read_runtime as read_runtime
from dptransfer.page.site import write_page as write_page
