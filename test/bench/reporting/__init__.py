# Copyright (c) 2026, lockredis contributors

"""The parts of the report of the benchmark."""
