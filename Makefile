# probity: `make` builds build/probity; `make demo`, `make check`, `make bench`, `make install` are explained in README.md.
BUILD ?= build
CC = gcc
WARN = -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith
CFLAGS ?= -O2 -g
STD = -std=gnu11 -D_GNU_SOURCE -Isrc -I$(BUILD)/gen
HOST_CFLAGS = $(STD) $(WARN) $(CFLAGS) $(SANITIZE) -MMD -MP
LIBS = -lZydis -liberty -ldw -lelf -Wl,--no-as-needed -llzma -Wl,--as-needed -lz -lncursesw -lpthread

HOST_DIRS = base symbol insn insn/x86 target load script stream jit drain sample unwind trace tree report record climb print live
HOST_SRC = $(foreach d,$(HOST_DIRS),$(wildcard src/$(d)/*.c))
HOST_OBJ = $(HOST_SRC:src/%.c=$(BUILD)/obj/%.o) $(BUILD)/obj/gen/agent_blob.o
CMD_OBJ = $(patsubst src/%.c,$(BUILD)/obj/%.o,$(wildcard src/cmd/*.c))

all: $(BUILD)/probity

$(BUILD)/probity: $(CMD_OBJ) $(BUILD)/libprobity.a
	$(CC) $(SANITIZE) -o $@ $^ $(LIBS)

$(BUILD)/libprobity.a: $(HOST_OBJ)
	rm -f $@ && ar rcs $@ $^

$(BUILD)/obj/%.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(HOST_CFLAGS) -c -o $@ $<

# The agent: freestanding, once per data model, linked flat and embedded.
AGENT_CFLAGS = $(STD) $(WARN) -O2 -ffreestanding -fPIE -fvisibility=hidden -mgeneral-regs-only -fno-stack-protector \
	-fno-asynchronous-unwind-tables -fcf-protection=none -fno-builtin -fno-tree-loop-distribute-patterns -fno-jump-tables \
	-fno-reorder-blocks-and-partition -mstringop-strategy=loop -MMD -MP
# What of stream/ and unwind/ also runs in the agent. The direction flag is the program's: no string instructions.
FREESTANDING_SRC = $(addprefix src/stream/,eval.c map.c ring.c softfloat.c stack.c) src/unwind/walk.c
AGENT_SRC = $(wildcard src/agent/*.c) $(FREESTANDING_SRC)
AGENT_FIXED_64 = -ffixed-rbp
AGENT_FIXED_32 = -ffixed-ebp

$(BUILD)/agent%.elf: $(AGENT_SRC) src/agent/agent.ld $(wildcard src/wire/*.h src/wire/*.def) $(wildcard src/agent/*.h src/stream/*.h src/unwind/*.h)
	@mkdir -p $(@D)
	$(CC) -m$* $(filter-out -MMD -MP,$(AGENT_CFLAGS)) $(AGENT_FIXED_$*) -nostdlib -static -Wl,--no-dynamic-linker -Wl,--build-id=none -Wl,--no-warn-rwx-segments -Wl,--emit-relocs -Wl,-T,src/agent/agent.ld -o $@ $(AGENT_SRC)

$(BUILD)/gen/agent_blob.c: $(BUILD)/agent64.elf $(BUILD)/agent32.elf tool/embed.sh
	@mkdir -p $(@D)
	tool/embed.sh $(BUILD)/agent64.elf $(BUILD)/agent32.elf > $@.new && mv $@.new $@

$(BUILD)/obj/gen/agent_blob.o: $(BUILD)/gen/agent_blob.c
	@mkdir -p $(@D)
	$(CC) $(HOST_CFLAGS) -c -o $@ $<

include test/test.mk
include bench/bench.mk

clean:
	rm -rf $(BUILD)

.PHONY: all clean
-include $(wildcard $(BUILD)/obj/*/*.d $(BUILD)/obj/*/*/*.d)
