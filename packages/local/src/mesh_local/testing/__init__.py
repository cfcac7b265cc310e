"""A mesh in somebody's tests: requests as a workload, faults, logs; blocking or with asyncio."""
