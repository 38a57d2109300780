#!/usr/bin/env python3
"""Copies the whole packets of a trace, without a part of one that a killed writer left at the end of a file, which babeltrace2 refuses.
whole_packets.py TRACE COPY"""
import os
import struct
import sys

PACKET_BITS_AT = 4 + 16 + 4 + 3 * 8  # magic, uuid, stream; first and last time, size of the content

trace, copy = sys.argv[1:]
os.mkdir(copy)
for name in os.listdir(trace):
    with open(os.path.join(trace, name), "rb") as file:
        data = file.read()
    end = 0
    while name != "metadata" and end + PACKET_BITS_AT + 8 <= len(data):
        size = struct.unpack_from("<Q", data, end + PACKET_BITS_AT)[0] // 8
        if size <= PACKET_BITS_AT or end + size > len(data):
            break
        end += size
    with open(os.path.join(copy, name), "wb") as file:
        file.write(data if name == "metadata" else data[:end])
    if name != "metadata" and not end:
        os.unlink(os.path.join(copy, name))
