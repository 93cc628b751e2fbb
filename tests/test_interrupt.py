"""In Jupyter, an answer that never ends can be interrupted; the check says so, and the session lives on."""

import queue
import time

from jupyter_client.manager import start_new_kernel

ENDLESS = """
from exercises import check

def endless(dout, x, g, eps):
    while True:
        pass

print("running", flush=True)
verdict = check("rmsnorm-backward", endless)
print(verdict.status, "|", verdict)
"""


def printed(client, seconds, until=None):
    """What the kernel prints until it is idle or has printed `until`."""
    said, end = "", time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            message = client.get_iopub_msg(timeout=1)
        except queue.Empty:
            continue
        if message["msg_type"] == "stream":
            said += message["content"]["text"]
        if message["msg_type"] == "error":
            said += "\n".join(message["content"]["traceback"])
        idle = message["msg_type"] == "status" and message["content"]["execution_state"] == "idle"
        if (until and until in said) or (idle and not until):
            return said
    raise AssertionError(f"nothing more within {seconds} s, after: {said}")


def test_an_endless_answer_is_interrupted():
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        client.execute(ENDLESS)
        printed(client, 60, until="running")
        time.sleep(1)
        manager.interrupt_kernel()
        said = printed(client, 60)
        assert "stopped |" in said and "is there a loop that never ends?" in said and "Traceback" not in said
        client.execute("print(1 + 1)")
        assert printed(client, 60).strip() == "2"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
