# lockredis: distributed locks for PostgreSQL
#
#   make                      build
#   make install              install
#   make installcheck         pg_regress and TAP tests against the installed files
#   make ASSERTS=1            with assertions of the extension's own code
#   make SANITIZE=address,undefined
#                             with these sanitizers
#   make COVERAGE=1           counting which lines and branches run
#   make compile_commands.json
#                             for language servers: how each file is compiled
#   make WERROR=1             warnings are errors
#   make dist                 the archive for PGXN, of what is committed

EXTENSION = lockredis
# The control file says which version this is.
EXTVERSION := $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" lockredis.control)
DATA = lockredis--1.0.sql lockredis--1.0--1.1.sql
MODULE_big = lockredis

# Every C file below src is part of the library.
OBJS = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c src/*/*.c src/*/*/*.c)))
SRC_HEADERS = $(wildcard src/*.h src/*/*.h src/*/*/*.h)

LUA = $(sort $(wildcard src/kinds/*/*.lua))

PG_CPPFLAGS = -Isrc -DLOCKREDIS_VERSION='"$(EXTVERSION)"'
PG_CFLAGS = -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare \
	-Wno-missing-field-initializers
SHLIB_LINK = -lhiredis -lssl -lcrypto

ifdef WERROR
PG_CFLAGS += -Werror
endif
ifdef ASSERTS
PG_CFLAGS += -DUSE_ASSERT_CHECKING
endif
ifdef SANITIZE
PG_CFLAGS += -fsanitize=$(SANITIZE) -fno-omit-frame-pointer \
	-fno-sanitize-recover=undefined -O1
SHLIB_LINK += -fsanitize=$(SANITIZE)
endif
ifdef COVERAGE
PG_CFLAGS += --coverage -O0
SHLIB_LINK += --coverage
endif

REGRESS = $(patsubst sql/%.sql,%,$(sort $(wildcard sql/*.sql)))
REGRESS_OPTS = --temp-instance=./tmp_check_regress \
	--temp-config=./test/regress.conf --temp-config=./tmp_check_redis.conf \
	--load-extension=lockredis \
	--encoding=UTF8 --no-locale
TAP_TESTS = 1
PROVE_TESTS ?= test/t/*.pl

EXTRA_CLEAN = compile_commands.json src/kinds/lua_ids.h src/store/redis/lua_texts.h tmp_check tmp_check_regress tmp_check_redis.conf \
	test/bench/bare_hiredis test/bench/delay_proxy test/bench/probe.so test/bench/bare_backend.so

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

PG_PROVE_FLAGS += -I $(CURDIR)/test/perl

# pg_regress as PGXS calls it, with a Redis beside it.
pg_regress_installcheck = \
	script/with-redis -c tmp_check_redis.conf \
	$(top_builddir)/src/test/regress/pg_regress \
	--inputdir=$(srcdir) --bindir='$(bindir)' $(EXTRA_REGRESS_OPTS)

# The library shows PostgreSQL what is marked PGDLLEXPORT, and nothing else.
$(OBJS): override CFLAGS += -fvisibility=hidden

# So nobody may take our code elsewhere: the just-in-time compiler would, into a
# query that then calls what is hidden, but leaves functions like these alone.
$(OBJS:.o=.bc): override BITCODE_CFLAGS += -fno-inline

$(OBJS) $(OBJS:.o=.bc): src/kinds/lua_ids.h
$(OBJS): $(filter-out src/kinds/lua_ids.h src/store/redis/lua_texts.h,$(SRC_HEADERS))
src/store/redis/ops.o src/store/redis/ops.bc: src/store/redis/lua_texts.h

src/kinds/lua_ids.h: $(LUA) script/embed-lua
	script/embed-lua ids $(LUA) > $@.tmp
	mv $@.tmp $@

src/store/redis/lua_texts.h: $(LUA) script/embed-lua
	script/embed-lua texts $(LUA) > $@.tmp
	mv $@.tmp $@

# For clangd and its like: how each file is compiled
.PHONY: compile_commands.json
compile_commands.json: src/kinds/lua_ids.h src/store/redis/lua_texts.h
	script/compile-commands $(OBJS:.o=.c) -- $(CC) $(CFLAGS) $(CPPFLAGS) > $@.tmp
	mv $@.tmp $@

# Programs of script/bench
.PHONY: bench
bench: test/bench/bare_hiredis test/bench/delay_proxy test/bench/probe.so test/bench/bare_backend.so

test/bench/bare_hiredis: test/bench/bare_hiredis.c test/bench/client.h src/store/redis/lua_texts.h
	$(CC) -O2 -Wall -Wextra -pthread -o $@ $< -lhiredis -lssl -lcrypto

test/bench/delay_proxy: test/bench/delay_proxy.c
	$(CC) -O2 -Wall -Wextra -o $@ $<

test/bench/probe.so: test/bench/client.h
test/bench/%.so: test/bench/%.c
	$(CC) $(CFLAGS) $(CPPFLAGS) $(CFLAGS_SL) -shared -o $@ $<

# What PGXN takes: the version there has three numbers.
DISTVERSION = $(shell sed -n 's/^  "version": "\(.*\)",$$/\1/p' META.json)
DISTDIR ?= .

.PHONY: dist
dist:
	git archive --format zip --prefix=$(EXTENSION)-$(DISTVERSION)/ \
		-o $(DISTDIR)/$(EXTENSION)-$(DISTVERSION).zip HEAD
