"""compare.py FLAT-JSON pprof|callgrind-self|callgrind-cum|flamegraph|speedscope OUTPUT: another program's numbers of each function are those
of the flat view. Says what differs and exits 1."""
import json
import re
import sys

flat_file, kind, output = sys.argv[1:]
rows = [row for row in json.load(open(flat_file))["parts"][0]["rows"] if not row.get("root")]
wanted = {row["name"]: (row["base"], row["cum"]) for row in rows}
text = open(output).read()
found = {}

if kind == "pprof":  # "  7ns 36.84% 52.63%       14ns 73.68%  A"
    for match in re.finditer(r"^\s*(\d+)(?:ns)? +\S+% +\S+% +(\d+)(?:ns)? +\S+%  (.+)$", text, re.M):
        found[match[3]] = (int(match[1]), int(match[2]))
elif kind.startswith("callgrind"):  # "1,234 (12.3%)  ???:A [???]"
    for match in re.finditer(r"^ *([\d,]+) \( *[\d.]+%\) +\S*:(\S+) \[", text, re.M):
        found[match[2]] = int(match[1].replace(",", ""))
    wanted = {name: value[kind == "callgrind-cum"] for name, value in wanted.items()}
    found = {name: found.get(name) for name in wanted}  # it lists the thread as well
elif kind == "flamegraph":  # the sum of all boxes of a name is its cum2
    for match in re.finditer(r"<title>(.+?) \(([\d,]+) samples, ", text):
        found[match[1]] = found.get(match[1], 0) + int(match[2].replace(",", ""))
    wanted = {row["name"]: row["cum2"] or row["cum"] for row in rows}
    wanted["all"] = sum(row["base"] for row in rows) + found.get("[outside of calls]", 0)
else:  # one profile for each thread
    for profile in json.loads(text):
        for name, (own, total) in profile["frames"].items():
            old = found.get(name, (0, 0))
            found[name] = (old[0] + own, old[1] + total)

found.pop("[outside of calls]", None)
if not wanted or wanted != found:
    print(f"{kind}: wanted {wanted}\n{kind}: found  {found}")
    sys.exit(1)
