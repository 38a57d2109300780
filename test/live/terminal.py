"""Runs a command on a terminal of its own and says what of its output a terminal would act on that is not probity's own.
Usage: terminal.py [--raw] [--keys TEXT] [--until SECONDS] COMMAND...
Without --raw: exits 1 if there is any. With it: exits 1 unless there is. --keys: typed once something has been shown, as often as it is
shown. The output goes to standard output."""
import os, pty, re, select, signal, struct, sys, termios, fcntl, time

arguments, keys, raw = sys.argv[1:], b"", False
while arguments[0].startswith("--"):
    if arguments[0] == "--raw":
        raw, arguments = True, arguments[1:]
    else:
        keys, arguments = arguments[1].encode(), arguments[2:]
pid, fd = pty.fork()
if not pid:
    os.environ["TERM"] = "xterm"
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 150, 0, 0))
    os.execvp(arguments[0], arguments)
output, last = b"", time.monotonic()
while True:
    if select.select([fd], [], [], 0.3)[0]:
        try:
            piece = os.read(fd, 65536)
        except OSError:
            break
        if not piece:
            break
        output += piece
        last = time.monotonic()
    elif keys and output:
        os.write(fd, keys[:1])
        keys = keys[1:]
    elif time.monotonic() - last > 100:
        os.kill(pid, signal.SIGKILL)
        sys.exit("hangs: %r" % output[-300:])
os.waitpid(pid, 0)
sys.stdout.buffer.write(output)

# Every hostile name of the test has some of these, and no command of ours prints any.
marks = [b"\x1b]", b"\x1b[35m", b"\x07", b"\x9b", b"\xff", b"\x7f", b"\xe2\x80\xae", b"\xe2\x81\xa7"]
found = [m for m in marks if m in output]
# All that is left once what probity prints itself is taken away: colours, places, erasing.
own = re.sub(rb"\x1b(\[[0-9;?]*[A-Za-z]|\([A-Z0-9]|[=>78])", b"", output) if not found else output
text = own.decode(errors="surrogateescape")
found += [c for c in text if (c < " " and c not in "\n\t\r\b\x0e\x0f") or "\x7f" <= c < "\xa0" or "\udc80" <= c <= "\udcff" or c in "\u202e\u2067"]
if raw:
    sys.exit(0 if len(found) >= 3 else "nothing of what is hostile reached the terminal")
if found:
    at = output.find(found[0]) if isinstance(found[0], bytes) else 0
    sys.exit("reaches the terminal: %r ... %r" % (found[:5], output[max(0, at - 60):at + 60]))
