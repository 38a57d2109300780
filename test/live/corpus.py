"""Sorts the entries of a map that have equal values: bpftrace leaves their order open. Text in, text out."""
import json
import re
import sys


def entries(lines):
    """Lines in groups: an entry of a map with what belongs to it, or one other line. With each, its map and its value, or None."""
    group, head = [], None
    for line in lines:
        match = re.match(r"(@\w*)\[.*\]: ?(.*)", line)
        if head and head[1] == "" and not match and not re.match(r"@\w*:", line):
            group.append(line)
            if line == "":
                yield head[0], "\n".join(group[1:]), group
                group, head = [], None
            continue
        if group:
            yield head[0], head[1] or "\n".join(group[1:]), group
            group, head = [], None
        if match:
            group, head = [line], match.groups()
        else:
            yield None, None, [line]
    if group:
        yield head[0], head[1] or "\n".join(group[1:]), group


def weight(value):
    """What a histogram is sorted by: how much is in it."""
    counts = re.findall(r"^[\[(].*?[\])]\s+(\d+) \|", value, re.M)
    return sum(map(int, counts)) if counts else value


def flush(run):
    for group in sorted(group for _, group in run):
        print("\n".join(group))


def json_line(line):
    """A map in JSON, its entries of equal values by key."""
    if not line.startswith('{"type": "map"'):
        return line
    whole = json.loads(line)
    for name, value in whole["data"].items():
        if isinstance(value, dict):
            whole["data"][name] = dict(sorted(value.items(), key=lambda item: (str(item[1]).zfill(24), item[0])))
    return json.dumps(whole)


def main():
    run, last = [], None
    for name, value, group in entries(map(json_line, sys.stdin.read().split("\n")[:-1])):
        key = None if name is None else (name, weight(value))
        if key != last or key is None:
            flush(run)
            run = []
        run.append((key, group))
        last = key
    flush(run)


main()
