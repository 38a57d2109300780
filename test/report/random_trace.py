"""random_trace.py SEED events|samples: a trace of random calls or samples, with recursion and threads, in the form of make.h."""
import random
import sys

seed, kind = int(sys.argv[1]), sys.argv[2]
rng = random.Random(seed)
names = ["lib!f%d" % i if i % 2 else "app!f%d" % i for i in range(7)]

for tid in range(1, rng.randint(2, 4)):
    time, stack = 0, []
    for _ in range(400):
        time += rng.randint(1, 9)
        if kind == "events":
            if stack and (len(stack) > 9 or rng.random() < 0.5):
                print(time, f"1.{tid} return", stack.pop())
            else:
                stack.append(rng.choice(names))
                print(time, f"1.{tid} enter", stack[-1])
        else:
            stack = stack[: rng.randint(0, len(stack))] + rng.choices(names, k=rng.randint(1, 3))
            stack = stack[-9:]
            places = [f"{name}={name[4:]}.c:{rng.randint(1, 30)}" for name in stack]
            print(time, f"1.{tid} sample", ";".join(places), rng.randint(1, 1000))
