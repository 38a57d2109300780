# `make bench`: what a probe costs, beside its peers, in one run.
bench:
	tool/install-deps.sh --bench
	$(MAKE) -j2 all build/bench/victim build/bench/calls build/bench/calls-pg build/bench/trace_speed build/bench/tree_speed build/bench/report_speed
	bench/run.sh; first=$$?; bench/trace.sh && bench/record.sh && bench/climb.sh && build/bench/trace_speed build/bench/trace_speed.dir && build/bench/tree_speed && build/bench/report_speed build/bench/report_speed.dir && exit $$first

# Programs that time parts of the controller: build/bench/NAME_speed from bench/NAME_speed.c.
build/bench/%_speed: bench/%_speed.c $(BUILD)/libprobity.a
	@mkdir -p $(@D)
	$(CC) $(filter-out -MMD -MP,$(HOST_CFLAGS)) -o $@ $< $(BUILD)/libprobity.a $(LIBS)

build/bench/victim: bench/victim.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -o $@ $< -pthread

build/bench/calls: bench/calls.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -o $@ $<
build/bench/calls-pg: bench/calls.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O2 -pg -Wall -Wextra -Werror -o $@ $<

.PHONY: bench
