# `make bench`: what a probe costs, beside its peers, in one run.
bench:
	tool/install-deps.sh --bench
	$(MAKE) -j2 all build/bench/victim
	bench/run.sh; first=$$?; bench/trace.sh && exit $$first

build/bench/victim: bench/victim.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -o $@ $< -pthread

.PHONY: bench
