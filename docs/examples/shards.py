# shards.py: all shards on a Dask cluster, and the report
import subprocess, sys
from dask.distributed import Client

SHARDS = 8
ANALYSE = sys.argv[2:]  # headscope analyze MODEL -c CORPUS --index corpus.index --counts counts.json ...


def shard(number):
    subprocess.run([*ANALYSE, "--threads", "1", "--shard", f"{number}/{SHARDS}", "-o", "parts/"], check=True)


if __name__ == "__main__":
    client = Client(sys.argv[1])  # the address of the scheduler
    client.gather(client.map(shard, range(1, SHARDS + 1), retries=2, pure=False))
    subprocess.run(["headscope", "merge", "parts/", "--no-run-info", "-o", "report.json"], check=True)
