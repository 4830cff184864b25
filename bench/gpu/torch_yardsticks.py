"""What PyTorch reaches on this GPU: products in the shapes of products.ts, a copy; and whether NCCL takes two ranks on one GPU.

Prints a line of JSON for each result, as result.ts has them.
"""

import json
import os
import statistics
import subprocess
import sys
import time

import torch

SHAPES = [
    ("square", 4096, 4096, [4096]),
    ("qkv", 6144, 4096, [1, 64, 256, 2048]),
    ("o", 4096, 4096, [1, 64, 256, 2048]),
    ("gate, up", 28672, 4096, [1, 64, 256, 2048]),
    ("down", 4096, 14336, [1, 64, 256, 2048]),
    ("head", 128256, 4096, [1, 64, 256]),
]
ROTATED_BYTES = 256e6


def tell(name, outcome, value=None, unit="", note=""):
    print(json.dumps({"name": name, "outcome": outcome, "value": value, "unit": unit, "goal": None, "note": note}), flush=True)


def seconds_of(body, runs=20):
    """The median of five times `runs` calls; the argument counts them."""
    for i in range(3):
        body(i)
    times = []
    for _ in range(5):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for i in range(runs):
            body(i)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1000 / runs)
    return statistics.median(times)


def products():
    for name, n, k, all_rows in SHAPES:
        count = max(1, -(-int(ROTATED_BYTES) // (2 * n * k)))
        weights = [torch.randn(n, k, device="cuda", dtype=torch.bfloat16) for _ in range(count)]
        for rows in all_rows:
            x = torch.randn(rows, k, device="cuda", dtype=torch.bfloat16)
            seconds = seconds_of(lambda i: torch.nn.functional.linear(x, weights[i % count]))
            label = f"E6 torch: {name} [{n}, {k}], {rows} rows"
            if rows <= 64:
                tell(label, "measured", 2 * n * k / seconds / 1e9, "GB/s")
            else:
                tell(label, "measured", 2 * n * k * rows / seconds / 1e12, "TFLOP/s")
    source, target = (torch.empty(1 << 32, dtype=torch.uint8, device="cuda") for _ in range(2))
    tell("E6 torch: a copy", "measured", 2 * (1 << 32) / seconds_of(lambda i: target.copy_(source), 5) / 1e9, "GB/s")


def rank(number):
    """One of two ranks: each believes that it has a host of its own."""
    os.environ.update(NCCL_HOSTID=f"host-{number}", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1",
                      NCCL_MULTI_RANK_GPU_ENABLE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29517")
    import torch.distributed as distributed
    distributed.init_process_group("nccl", rank=number, world_size=2)
    data = torch.full((1 << 26,), float(number), device="cuda")
    began = time.monotonic()
    (distributed.send if number == 0 else distributed.recv)(data, 1 - number)
    torch.cuda.synchronize()
    if number == 1:
        right = bool((data == 0).all())
        tell("E5 two ranks on one GPU", "passed" if right else "failed", note=f"NCCL {torch.cuda.nccl.version()}")
        tell("E5 the first message, 256 MiB", "measured", (1 << 28) / (time.monotonic() - began) / 1e9, "GB/s")


def nccl():
    ranks = [subprocess.Popen([sys.executable, __file__, f"rank{i}"]) for i in range(2)]
    deadline = time.monotonic() + 35
    try:
        codes = [one.wait(max(0.1, deadline - time.monotonic())) for one in ranks]
    except subprocess.TimeoutExpired:
        codes = ["still running after 35 s"]
    finally:
        for one in ranks:
            one.kill()
    if codes != [0, 0]:
        tell("E5 two ranks on one GPU", "failed", note=f"the ranks ended with {codes}")


if __name__ == "__main__":
    what = sys.argv[1]
    if what == "products":
        products()
    elif what == "nccl":
        nccl()
    else:
        rank(int(what.removeprefix("rank")))
