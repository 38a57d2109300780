# Tests: victims (programs to trace), unit tests, and the targets that run them. test/run.sh runs whatever is built here.
VICTIMS = build/victim
VICTIM_CFLAGS = -D_GNU_SOURCE -O2 -g -Wall -Wextra -Werror
VICTIM_LIBS = -pthread -ldl -lrt
# libc's 32-bit headers lead to <asm/...>, which only the native folder has.
MULTIARCH = $(shell $(CC) -print-multiarch)
M64 = -m64
M32 = -m32 -idirafter /usr/include/$(MULTIARCH)

VICTIM_NAMES = $(basename $(notdir $(wildcard test/victim/v_*.c test/victim/v_*.cc))) libv_plugin.so libv_leaf.so \
	libv_turn_a.so libv_turn_b.so
# One source in the ways that programs come: v_count-KIND.
VARIANT_KINDS = nopie static static-pie stripped musl musl-static
VARIANTS = $(VARIANT_KINDS:%=v_count-%) $(VARIANT_KINDS:%=v_altstack-%) v_contexts-nopie v_contexts-static v_exceptions-static v_signals-static-pie v_fault_throw-static \
	v_hostile-small v_stacks-static v_stacks-now v_climb-stripped v_climb-nopie v_climb-bare
FLAGS_nopie = -no-pie -fno-pie
FLAGS_static = -static -no-pie -fno-pie
FLAGS_static-pie = -static-pie -fPIE
FLAGS_stripped = -s
FLAGS_bare = -s -fno-asynchronous-unwind-tables -fno-unwind-tables -fno-exceptions -fno-omit-frame-pointer
FLAGS_small = -DSMALL_STACKS
FLAGS_now = -Wl,-z,now -fcf-protection

$(foreach w,64 32,$(VICTIMS)/$(w)/v_fault_throw $(VICTIMS)/$(w)/v_fault_throw-static): VICTIM_CFLAGS += -fnon-call-exceptions

# It knows what is in the memory that it shares.
HOSTILE = $(foreach w,64 32,$(VICTIMS)/$(w)/v_hostile $(VICTIMS)/$(w)/v_hostile-small)
$(HOSTILE): VICTIM_CFLAGS += -Isrc
$(HOSTILE): $(wildcard src/wire/*.h src/wire/*.def)

define library_rules
$(VICTIMS)/$(1)/v_climb_library: VICTIM_LIBS += -L$(VICTIMS)/$(1) -lv_leaf -Wl,-rpath,'$$$$ORIGIN'
$(VICTIMS)/$(1)/v_climb_library: $(VICTIMS)/$(1)/libv_leaf.so
$(VICTIMS)/$(1)/libv_turn_b.so: test/victim/libv_turn_a.c
endef
$(eval $(call library_rules,64))
$(eval $(call library_rules,32))

victims: $(foreach w,64 32,$(addprefix $(VICTIMS)/$(w)/,$(VICTIM_NAMES) $(VARIANTS)))

define victim_rules
$(VICTIMS)/$(1)/libv_%.so: test/victim/libv_%.c test/victim/victim.h
	@mkdir -p $$(@D)
	$$(CC) $$(M$(1)) $$(VICTIM_CFLAGS) -shared -fPIC -o $$@ $$<
$(VICTIMS)/$(1)/%: test/victim/%.c test/victim/victim.h
	@mkdir -p $$(@D)
	$$(CC) $$(M$(1)) -std=gnu11 $$(VICTIM_CFLAGS) -o $$@ $$< $$(VICTIM_LIBS)
$(VICTIMS)/$(1)/%: test/victim/%.cc test/victim/victim.h
	@mkdir -p $$(@D)
	g++ $$(M$(1)) $$(VICTIM_CFLAGS) -o $$@ $$< $$(VICTIM_LIBS)
$(foreach k,nopie static static-pie stripped bare now small,$(call variant_rules,$(1),$(k)))
endef
define variant_rules

$(VICTIMS)/$(1)/%-$(2): test/victim/%.c test/victim/victim.h
	@mkdir -p $$(@D)
	$$(CC) $$(M$(1)) -std=gnu11 $$(VICTIM_CFLAGS) $$(FLAGS_$(2)) -o $$@ $$< $$(VICTIM_LIBS)
$(VICTIMS)/$(1)/%-$(2): test/victim/%.cc test/victim/victim.h
	@mkdir -p $$(@D)
	g++ $$(M$(1)) $$(VICTIM_CFLAGS) $$(FLAGS_$(2)) -o $$@ $$< $$(VICTIM_LIBS)
endef
$(eval $(call victim_rules,64))
$(eval $(call victim_rules,32))

# musl: its own wrapper for 64 bit; for 32 bit its spec file, moved to where install-deps.sh unpacked it. A missing toolchain leaves no
# program, which the tests report as skipped.
MUSL32 = $(CURDIR)/build/i386
$(VICTIMS)/64/%-musl: test/victim/%.c test/victim/victim.h
	@mkdir -p $(@D)
	if command -v musl-gcc >/dev/null; then musl-gcc -std=gnu11 $(VICTIM_CFLAGS) -o $@ $< -pthread; fi
$(VICTIMS)/64/%-musl-static: test/victim/%.c test/victim/victim.h
	@mkdir -p $(@D)
	if command -v musl-gcc >/dev/null; then musl-gcc -static -std=gnu11 $(VICTIM_CFLAGS) -o $@ $< -pthread; fi
$(VICTIMS)/32/%-musl: test/victim/%.c test/victim/victim.h $(VICTIMS)/musl32.specs
	@mkdir -p $(@D)
	if [ -s $(VICTIMS)/musl32.specs ]; then $(CC) -m32 -specs $(VICTIMS)/musl32.specs -std=gnu11 $(VICTIM_CFLAGS) -o $@ $< -pthread; fi
$(VICTIMS)/32/%-musl-static: test/victim/%.c test/victim/victim.h $(VICTIMS)/musl32.specs
	@mkdir -p $(@D)
	if [ -s $(VICTIMS)/musl32.specs ]; then $(CC) -m32 -static -specs $(VICTIMS)/musl32.specs -std=gnu11 $(VICTIM_CFLAGS) -o $@ $< -pthread; fi
$(VICTIMS)/musl32.specs:
	@mkdir -p $(@D)
	if [ -f $(MUSL32)/usr/lib/i386-linux-musl/musl-gcc.specs ]; then \
	    sed 's,/usr/,$(MUSL32)/usr/,g; s,/lib/ld-musl,$(MUSL32)/lib/ld-musl,; s,^-dynamic-linker,-m elf_i386 -L$(MUSL32)/lib/i386-linux-musl &,' \
	        $(MUSL32)/usr/lib/i386-linux-musl/musl-gcc.specs > $@; else : > $@; fi

# test/unit/FOLDER_NAME.c is one program; a test of several files is all of test/insn/state_*.c.
UNIT_TESTS = $(patsubst test/unit/%.c,$(BUILD)/test/unit/%,$(wildcard test/unit/*.c)) $(BUILD)/test/insn/state_equal \
	$(foreach w,64 32,$(addprefix $(BUILD)/test/stream/$(w)/,equal guarded holds ops softfloat cost) \
	$(AGENT_SRC:%.c=$(BUILD)/test/stream/$(w)/obj/agent/%.o)) $(BUILD)/test/report/make
unit-tests: $(UNIT_TESTS)
$(BUILD)/test/unit/%: test/unit/%.c $(BUILD)/libprobity.a
	@mkdir -p $(@D)
	$(CC) $(HOST_CFLAGS) -I. -o $@ $< $(BUILD)/libprobity.a $(LIBS)

$(BUILD)/test/insn/state_equal: $(wildcard test/insn/state_*.c) test/insn/state.h $(BUILD)/libprobity.a
	@mkdir -p $(@D)
	$(CC) $(filter-out -MMD -MP,$(HOST_CFLAGS)) -o $@ $(wildcard test/insn/state_*.c) $(BUILD)/libprobity.a $(LIBS)

$(BUILD)/test/report/make: test/report/make.c test/report/make.h $(BUILD)/libprobity.a
	@mkdir -p $(@D)
	$(CC) $(filter-out -MMD -MP,$(HOST_CFLAGS)) -I. -o $@ $< $(BUILD)/libprobity.a $(LIBS)

# Programs of test/stream come in both widths. What runs while a body is called is compiled as for the agent: vector registers and the
# direction of string instructions are then the traced program's.
EQUAL_AGENT_SRC = $(FREESTANDING_SRC) src/agent/x87.c test/stream/equal_world.c
EQUAL_HOST_SRC = $(wildcard src/base/*.c src/jit/*.c) $(addprefix src/stream/,verify.c stream.c op.c dump.c) \
	$(addprefix test/stream/,equal_program.c equal_run.c equal_body.c)
define stream_rules
$(BUILD)/test/stream/$(1)/obj/agent/%.o: %.c
	@mkdir -p $$(@D)
	$$(CC) $$(M$(1)) -I. $$(AGENT_CFLAGS) -c -o $$@ $$<
$(BUILD)/test/stream/$(1)/obj/host/%.o: %.c
	@mkdir -p $$(@D)
	$$(CC) $$(M$(1)) -I. $$(filter-out -fsanitize% -fno-sanitize%,$$(HOST_CFLAGS)) -fno-pie -msse2 -mfpmath=sse -c -o $$@ $$<
$(BUILD)/test/stream/$(1)/softfloat: $(BUILD)/test/stream/$(1)/obj/host/test/stream/softfloat.o $(BUILD)/test/stream/$(1)/obj/agent/src/stream/softfloat.o
	$$(CC) $$(M$(1)) -no-pie -o $$@ $$^ -lm
$(BUILD)/test/stream/$(1)/%: $(BUILD)/test/stream/$(1)/obj/host/test/stream/%.o \
	$(EQUAL_AGENT_SRC:%.c=$(BUILD)/test/stream/$(1)/obj/agent/%.o) $(EQUAL_HOST_SRC:%.c=$(BUILD)/test/stream/$(1)/obj/host/%.o)
	$$(CC) $$(M$(1)) -no-pie -o $$@ $$^
endef
$(eval $(call stream_rules,64))
$(eval $(call stream_rules,32))
.SECONDARY:

SANITIZED = build-asan
# fuzz/NAME.c --runs N: random input under sanitizers, with the pure folders compiled in.
FUZZERS = $(patsubst fuzz/%.c,$(BUILD)/fuzz/%,$(wildcard fuzz/*.c))
FUZZED_SRC = $(foreach d,base script symbol insn insn/x86 print trace tree report,$(wildcard src/$(d)/*.c)) src/unwind/walk.c \
	src/load/left.c src/load/live.c
FUZZED_OBJ = $(FUZZED_SRC:%.c=$(BUILD)/fuzz/obj/%.o)
FUZZ_CFLAGS = $(STD) $(WARN) -I. -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined
fuzzers: $(FUZZERS)
$(BUILD)/fuzz/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(FUZZ_CFLAGS) -MMD -MP -c -o $@ $<
$(BUILD)/fuzz/%: $(BUILD)/fuzz/obj/fuzz/%.o $(FUZZED_OBJ)
	$(CC) $(FUZZ_CFLAGS) -o $@ $^ $(LIBS)

# Streams come from the generator of test/stream, and run in its world.
FUZZED_STREAM_SRC = $(FREESTANDING_SRC) src/agent/x87.c $(addprefix src/stream/,verify.c stream.c op.c dump.c) $(wildcard src/base/*.c) \
	$(addprefix test/stream/equal_,program.c run.c world.c)
$(filter $(BUILD)/fuzz/stream_%,$(FUZZERS)): $(BUILD)/fuzz/%: $(BUILD)/fuzz/obj/fuzz/%.o $(FUZZED_STREAM_SRC:%.c=$(BUILD)/fuzz/obj/%.o)
	$(CC) $(FUZZ_CFLAGS) -o $@ $^

# What runs on the session's memory is most of the controller: it is linked as a whole, with sanitizers.
ifneq ($(BUILD),$(SANITIZED))
$(SANITIZED)/libprobity.a: sanitized-controller ;
endif
$(BUILD)/fuzz/drain_session: $(BUILD)/fuzz/obj/fuzz/drain_session.o $(SANITIZED)/libprobity.a
	$(CC) $(FUZZ_CFLAGS) -o $@ $^ $(LIBS)
-include $(wildcard $(BUILD)/fuzz/obj/*/*.d $(BUILD)/fuzz/obj/*/*/*.d $(BUILD)/fuzz/obj/*/*/*/*.d)

# The compiler's command lines are in BUILD/log/build.log; a test takes one line.
TESTED = all victims unit-tests fuzzers sanitized
check:
	@tool/install-deps.sh --test
	+@tool/quietly.sh $(BUILD)/log/build.log $(MAKE) -j2 $(TESTED)
	@BUILD=$(BUILD) test/run.sh

check-long:
	@tool/install-deps.sh --test
	+@tool/quietly.sh $(BUILD)/log/build.log $(MAKE) -j2 $(TESTED)
	@BUILD=$(BUILD) PROBITY_LONG=1 test/run.sh

# The controller alone under sanitizers, for tests whose processes are hostile; `make asan` has one already.
sanitized: $(if $(filter $(SANITIZED),$(BUILD)),,sanitized-controller)
sanitized-controller:
	+@$(MAKE) --no-print-directory BUILD=$(SANITIZED) SANITIZE="$(SANITIZERS)" CFLAGS="-O1 -g1" all
SANITIZERS = -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
asan-build:
	+@tool/quietly.sh build-asan/log/build.log $(MAKE) -j2 BUILD=build-asan SANITIZE="$(SANITIZERS)" $(TESTED)
asan:
	@tool/install-deps.sh --test
	@$(MAKE) --no-print-directory asan-build
	@BUILD=build-asan test/run.sh

# Real programs and servers while probity comes, goes, and is killed: doc/torture.md. MINUTES=100 in full.
MINUTES = 10
torture:
	@tool/install-deps.sh --test --torture
	+@tool/quietly.sh $(BUILD)/log/build.log $(MAKE) -j2 all
	@BUILD=$(BUILD) test/torture/run.py --minutes $(MINUTES)

demo:
	tool/install-deps.sh
	@$(MAKE) --no-print-directory -s -j2 all $(VICTIMS)/64/v_storm $(VICTIMS)/32/v_storm
	@examples/demo.sh

PREFIX ?= /usr/local
install: all
	install -D -m 755 $(BUILD)/probity $(DESTDIR)$(PREFIX)/bin/probity
	for page in doc/man/*.1; do install -D -m 644 $$page $(DESTDIR)$(PREFIX)/share/man/man1/$${page##*/} || exit 1; done

.PHONY: victims unit-tests fuzzers check check-long asan asan-build sanitized sanitized-controller torture demo install
-include $(wildcard $(BUILD)/test/unit/*.d $(BUILD)/test/stream/*/obj/*/*/*/*.d)
