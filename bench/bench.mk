# `make bench`: what a probe costs, beside its peers, in one run. `make bench-programs`, and the scripts can be run one by one.
bench:
	@tool/install-deps.sh --bench
	+@tool/quietly.sh build/log/bench-build.log $(MAKE) -j2 bench-programs
	@bench/all.sh

# Programs that time parts of the controller: build/bench/NAME_speed from bench/NAME_speed.c.
build/bench/%_speed: bench/%_speed.c $(BUILD)/libprobity.a
	@mkdir -p $(@D)
	$(CC) $(filter-out -MMD -MP,$(HOST_CFLAGS)) -o $@ $< $(BUILD)/libprobity.a $(LIBS)

bench-programs: all $(addprefix build/bench/,victim victim32 calls calls-pg trace_speed tree_speed report_speed)

BENCH_CFLAGS = -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror
build/bench/victim: bench/victim.c
	@mkdir -p $(@D)
	$(CC) $(BENCH_CFLAGS) -o $@ $< -pthread
build/bench/victim32: bench/victim.c
	@mkdir -p $(@D)
	$(CC) $(M32) $(BENCH_CFLAGS) -o $@ $< -pthread

build/bench/calls: bench/calls.c
	@mkdir -p $(@D)
	$(CC) $(BENCH_CFLAGS) -o $@ $<
build/bench/calls-pg: bench/calls.c
	@mkdir -p $(@D)
	$(CC) $(BENCH_CFLAGS) -pg -o $@ $<

.PHONY: bench bench-programs
